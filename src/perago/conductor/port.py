"""The operations that Perago needs of Conductor. The client and the in-memory fake pass one conformance suite.

Every method raises leaves of `ConductorError`. Conductor answers 200 to updates it ignores, so no method tells whether an update
was accepted: read the task.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perago.model import Attempt, Outcome, Snapshot, TaskId, TaskType, WorkerId, WorkflowId, WorkflowRun

__all__ = ["AttemptFence", "Conductor", "Polled", "Snapshot"]


@dataclass(frozen=True, slots=True)
class Polled:
    """A task handed out to us: its identity and its input as Conductor's JSON."""

    attempt: Attempt
    input: Mapping[str, Any]
    response_timeout_seconds: float
    timeout_seconds: float = 0
    """No lease extension extends this limit: later results are lost. 0 means no limit."""
    input_is_elsewhere: bool = False
    """The input was too large for Conductor, which sent the path of a file in its payload storage instead."""
    workflow_name: str = ""


class AttemptFence(Protocol):
    """The reads that an attempt needs of Conductor, in the executor or in the supervisor; never cached."""

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
    """Polls, reads, lease extensions, reports and task definitions."""

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        """One task, or None after at most `wait_seconds` (5 at most); `worker_id` carries the poll's nonce."""
        ...

    def snapshot(self, workflow_id: WorkflowId, task_id: TaskId) -> Snapshot: ...

    def workflow_status(self, workflow_id: WorkflowId) -> str: ...

    def workflow_run(self, workflow_id: WorkflowId) -> WorkflowRun: ...

    def task(self, task_id: TaskId) -> Snapshot:
        """A snapshot without the workflow's status, in one request instead of two."""
        ...

    def extend_lease(self, attempt: Attempt) -> None:
        """Reset the response timeout. Does not tell whether the attempt is still current."""
        ...

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        """Send the result of an attempt, once. A COMPLETED one never carries a lease extension, a FAILED one no output."""
        ...

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        """A report and the next poll for the same type in one request; the task that ended gets the poll's `worker_id`.

        Where no other task is ready it waits for one, for about 0.1 s.
        """
        ...

    def hand_back(self, attempt: Attempt) -> None:
        """Put a task that was polled but not started back into its queue; no retry is spent."""
        ...

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        """Tasks in progress that these polls were given, for polls whose reply was lost.

        From the server's search index: if it is disabled or behind, some tasks are missing, but none is listed wrongly.
        """
        ...

    def decide(self, workflow_id: WorkflowId) -> None:
        """Let the server look at the workflow now, and schedule what follows from its tasks."""
        ...

    def log(self, task_id: TaskId, lines: Sequence[str]) -> None:
        """Lines for the task's log in Conductor's UI, as one entry: Conductor keeps ten."""
        ...

    def task_definition(self, task_type: TaskType) -> Mapping[str, Any] | None: ...

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        """Create it, or update the one of that name."""
        ...
