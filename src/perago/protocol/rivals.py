"""Rivals: other staging branches of the same target. Which of them are live, and which attempt precedes the other."""

from dataclasses import dataclass

from perago.model import Attempt, Snapshot
from perago.protocol.staging_names import StagingName
from perago.protocol.statuses import ACTIVE_WORKFLOW, TaskState

_FORGOTTEN_SECONDS = 3600
"""A person publishes within seconds, or within minutes if there is much to upload."""


@dataclass(frozen=True, slots=True, order=True)
class Precedence:
    """All fields come from Conductor, so that two attempts that compute it get the same result."""

    workflow_created: int
    task_started: int
    task_id: str


@dataclass(frozen=True, slots=True)
class Rival:
    """A staging branch of the same target and its task; `seen` is None if Conductor does not know the task."""

    name: StagingName
    seen: Snapshot | None

    def __str__(self) -> str:
        workflow = self.seen.workflow_name if self.seen is not None else ""
        return f"step {self.name.reference_name} of workflow {workflow or 'with the id'} {self.name.workflow_id}"


def is_live(rival: Rival, own: Attempt) -> bool:
    """Whether Conductor waits for the attempt that made the branch. An earlier execution of `own`'s task is never live.

    A human step waits without a time limit, so the branch that a killed publication of it left would be live all that time. One
    that was made long before `own` was handed out is not: a wrong clock can only make the person publish again.
    """
    seen = rival.seen
    return (
        seen is not None
        and seen.task_id != own.task_id
        and seen.status == TaskState.IN_PROGRESS
        and seen.retry_count == rival.name.retry_count
        and seen.workflow_status in ACTIVE_WORKFLOW
        and not _is_forgotten(rival.name, own)
    )


def is_sibling(rival: Rival, own: Attempt) -> bool:
    """Whether it belongs to another execution of `own`, which is a human step that several people may do at the same time."""
    name = rival.name
    return name.is_of_person and name.task_id == own.task_id and name.retry_count == own.retry_count


def _is_forgotten(name: StagingName, own: Attempt) -> bool:
    if not name.is_of_person or name.made_at is None:
        return False
    return name.made_at + _FORGOTTEN_SECONDS < own.start_time / 1000


def precedes(rival: Rival, own: Snapshot) -> bool:
    return rival.seen is not None and precedence(rival.seen) < precedence(own)


def precedence(seen: Snapshot) -> Precedence:
    return Precedence(seen.workflow_created, seen.start_time, seen.task_id)
