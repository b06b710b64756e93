"""What the in-memory Conductor stores about workflows and their tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perago.model import TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol.statuses import TaskState, WorkflowState


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """One SIMPLE task of a workflow; `input` may be a function of the outputs of the steps before it, by reference name."""

    task_type: TaskType
    reference_name: str
    input: Mapping[str, Any] | Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, Any]] = field(
        default_factory=dict[str, Any]
    )
    input_is_elsewhere: bool = False
    """In external payload storage, as the server does with one that is too large."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A row as the server stores it. Updates replace the whole row, which is how they lose each other."""

    workflow_id: WorkflowId
    task_id: TaskId
    task_type: TaskType
    reference_name: str
    step: int
    seq: int
    input: Mapping[str, Any]
    retry_count: int = 0
    status: str = TaskState.SCHEDULED
    worker_id: WorkerId | None = None
    start_time: int = 0
    poll_count: int = 0
    output: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reason: str | None = None
    input_is_elsewhere: bool = False
    output_is_elsewhere: bool = False


@dataclass(slots=True)
class WorkflowRow:
    steps: Sequence[WorkflowStep]
    created: int
    lanes: int = 1
    """So many steps at the beginning are the lanes of a fork: scheduled together, and the next one after all of them."""
    status: str = WorkflowState.RUNNING
    ended: int = 0
    seq: int = 0
    waiting: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Steps and retry counts to schedule when a pause ends."""
