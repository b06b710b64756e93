"""The target branch's head: its place relative to the input, and Conductor's answer about the task that made it.

A commit is abandoned if it reached the branch although Conductor did not accept its task with it. The labels
of the commit only name the task; Conductor's answer about that task decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from perago.model import Attempt, Commit, CommitId, Snapshot
from perago.protocol import commit_labels
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK, TaskState

_LATEST_REPORT_MILLISECONDS = 60_000
"""Longer than Conductor needs to process a report that it received before the workflow ended."""


class Place(StrEnum):
    """Where the head is, seen from the input commit."""

    AT_INPUT = "at the input"
    ON_INPUT = "directly on the input"
    BESIDE_INPUT = "directly on the commit that the input is directly on"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Not made by a task of Perago."""

    message: str
    committer: str
    command: str = ""
    """The command of Perago with which an operator made it: no attempt removes it."""


@dataclass(frozen=True, slots=True)
class AcceptedCommit:
    """Conductor accepted the task with exactly this commit."""

    by: commit_labels.Labels
    workflow_name: str
    is_readable: bool = True
    """False where the task's output is in external storage: it counts as accepted."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Conductor did not accept it, and will not."""

    by: commit_labels.Labels
    why: str


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another task made it and may still report it to Conductor."""

    by: commit_labels.Labels
    workflow_name: str


@dataclass(frozen=True, slots=True)
class CompletedOtherwise:
    """Conductor accepted the task with another commit, or with none: another execution of the task made this one."""

    by: commit_labels.Labels
    accepted: CommitId | None


@dataclass(frozen=True, slots=True)
class Undecidable:
    """Conductor no longer knows the task."""

    by: commit_labels.Labels
    why: str


Acceptance = Unlabelled | AcceptedCommit | Abandoned | InProgress | CompletedOtherwise | Undecidable


@dataclass(frozen=True, slots=True)
class Head:
    """`acceptance` is None where the place alone decides."""

    commit: CommitId
    place: Place
    acceptance: Acceptance | None = None


def place(head: Commit, input_ref: CommitId) -> Place:
    """Does not read the input's parent and never returns `BESIDE_INPUT`, which the caller has to check."""
    if head.id == input_ref:
        return Place.AT_INPUT
    return Place.ON_INPUT if head.first_parent == input_ref else Place.ELSEWHERE


def judge(commit: Commit, seen: Snapshot | None, *, own: Attempt, own_run: int) -> Acceptance:
    """The acceptance of `commit`. `seen` is its task as read from Conductor; None if Conductor does not know the task.

    `own` is the attempt that asks, whose fence has just passed, and `own_run` the creation time of its workflow's run.
    """
    by = commit_labels.read(commit.metadata)
    if by is None:
        return Unlabelled(commit.message, commit.committer, commit_labels.command(commit.metadata))
    if seen is None:
        return _unknown(by, own, own_run)
    if seen.status == TaskState.COMPLETED:
        return _completed(commit, by, seen)
    if seen.status in UNFINISHED_TASK:
        return _unfinished(by, seen, own)
    return Abandoned(by, f"its task is {seen.status}")


def _unfinished(by: commit_labels.Labels, seen: Snapshot, own: Attempt) -> Abandoned | InProgress:
    if by.task_id == own.task_id:
        return Abandoned(by, "an earlier execution of this task made it")
    if _ended_long_before(seen, own):
        return Abandoned(by, f"its workflow is {seen.workflow_status}")
    return InProgress(by, seen.workflow_name)


def _ended_long_before(seen: Snapshot, own: Attempt) -> bool:
    """Whether the task's workflow had ended long before `own` was handed out.

    A lease extension that races a terminate leaves the task in progress forever, in a workflow that accepts no more reports. A
    workflow that ended just now proves nothing: task and workflow are two reads, and the report may come between them. Both times
    are Conductor's own.
    """
    is_over = seen.workflow_status not in ACTIVE_WORKFLOW
    return is_over and 0 < seen.workflow_ended < own.start_time - _LATEST_REPORT_MILLISECONDS


def _completed(commit: Commit, by: commit_labels.Labels, seen: Snapshot) -> AcceptedCommit | CompletedOtherwise:
    if seen.output_is_elsewhere:
        return AcceptedCommit(by, seen.workflow_name, is_readable=False)
    accepted = accepted_ref(seen)
    return AcceptedCommit(by, seen.workflow_name) if accepted == commit.id else CompletedOtherwise(by, accepted)


def accepted_ref(seen: Snapshot) -> CommitId | None:
    """The commit that a completed task's output names."""
    workspace = seen.output.get("workspace") if seen.status == TaskState.COMPLETED else None
    ref = cast("Mapping[str, Any]", workspace).get("ref") if isinstance(workspace, Mapping) else None
    return CommitId(ref) if isinstance(ref, str) and ref else None


def _unknown(by: commit_labels.Labels, own: Attempt, own_run: int) -> Abandoned | Undecidable:
    """A restart deletes the tasks of the previous run. Tasks deleted for other reasons must not be mistaken for those."""
    if by.workflow_id != own.workflow_id:
        return Undecidable(by, "Conductor no longer knows the task that made it")
    if by.workflow_created is None or by.workflow_created == own_run:
        return Undecidable(by, "Conductor has deleted the task that made it (a loop that keeps its last iterations, or a rerun)")
    return Abandoned(by, "its workflow was restarted")
