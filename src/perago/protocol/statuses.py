"""Conductor's task and workflow statuses, and the groups of them that decisions depend on.

`Snapshot` keeps statuses as plain text, because a server may answer with one that is not listed here.
"""

from enum import StrEnum


class TaskState(StrEnum):
    """Conductor's `Task.Status`."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    """An optional task that failed."""
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"


class WorkflowState(StrEnum):
    """Conductor's `Workflow.WorkflowStatus`."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"


UNFINISHED_TASK: frozenset[str] = frozenset({TaskState.SCHEDULED, TaskState.IN_PROGRESS})
ACTIVE_WORKFLOW: frozenset[str] = frozenset({WorkflowState.RUNNING, WorkflowState.PAUSED})
"""A pause stops scheduling only: running tasks continue, and Conductor accepts their results."""
ENDED_WORKFLOW: frozenset[str] = frozenset(WorkflowState) - ACTIVE_WORKFLOW
