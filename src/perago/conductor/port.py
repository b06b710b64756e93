"""The verbs Perago needs of the task authority. The Conductor client and the in-memory fake both pass one conformance suite.

Every method raises leaves of `ConductorError`. Conductor answers 200 to updates it ignores, so no update here says that it was
accepted: read the task.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perago.model import Attempt, Outcome, Snapshot, TaskId, TaskType, WorkerId, WorkflowId

__all__ = ["AttemptFence", "Conductor", "Polled", "Snapshot"]


@dataclass(frozen=True, slots=True)
class Polled:
    """A task handed out to us: its identity and its input as Conductor's JSON."""

    attempt: Attempt
    input: Mapping[str, Any]
    response_timeout_seconds: float
    timeout_seconds: float = 0
    """No lease extends this one: work beyond it is lost. 0 means none."""
    input_is_elsewhere: bool = False
    """It was too large for Conductor, which sent the path of a file in its payload storage instead of it."""


class AttemptFence(Protocol):
    """What an attempt needs of Conductor, and nothing else of it: fresh reads, wherever they are made."""

    def snapshot(self, attempt: Attempt) -> Snapshot:
        """The attempt's own task and its workflow."""
        ...

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        """Another task, with its workflow if that is named; `ConductorNotFound` where Conductor does not know it."""
        ...

    def lease_seconds_left(self) -> float:
        """Until the local lease deadline; negative once it has passed."""
        ...


class Conductor(Protocol):
    """Polling, truth, leases, reports and definitions."""

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        """One task, or None after at most `wait_seconds` (5 at most); `worker_id` carries the poll's nonce."""
        ...

    def snapshot(self, workflow_id: WorkflowId, task_id: TaskId) -> Snapshot: ...

    def task(self, task_id: TaskId) -> Snapshot:
        """The cheaper half of a snapshot: without the workflow's status."""
        ...

    def extend_lease(self, attempt: Attempt) -> None:
        """Reset the response timeout. Says nothing about whether the attempt is still current."""
        ...

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        """Send the end of an attempt, once. A COMPLETED one never carries a lease extension; a FAILED one no output."""
        ...

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        """A report and the next poll for the same type in one request; the task that ended is left with the poll's `worker_id`.

        Where no other task is ready it waits for one, for about 0.1 s.
        """
        ...

    def hand_back(self, attempt: Attempt) -> None:
        """Put a task that was polled but not begun back into its queue, for whoever polls next; no retry is spent."""
        ...

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        """Tasks in progress that these polls were given, for polls whose reply was lost.

        From the server's search index: one that is switched off or behind says of fewer than there are, never of more.
        """
        ...

    def log(self, task_id: TaskId, lines: Sequence[str]) -> None:
        """Lines for the task's log in Conductor's UI, as one entry: it keeps ten of them."""
        ...

    def task_definition(self, task_type: TaskType) -> Mapping[str, Any] | None: ...

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        """Create it, or update the one of that name."""
        ...
