"""The attempt fence: whether a fresh read of a task still shows the attempt that was polled.

The one implementation of "is this still the current attempt?". The executor asks before it publishes, the supervisor before it
extends a lease, hands a task back or reports.
"""

from collections.abc import Iterator

from perago.errors import StaleAttemptError
from perago.model import Attempt, Snapshot
from perago.protocol.statuses import ACTIVE_WORKFLOW, TaskState


def same_execution(attempt: Attempt, seen: Snapshot) -> bool:
    """Whether the task is still the one that was polled, whatever its status; a rerun has the same ids and another start time."""
    return all(field == "status" for field, _, _ in _differences(attempt, seen))


def is_current(attempt: Attempt, seen: Snapshot) -> bool:
    """Whether the task is in progress for exactly this attempt. Does not check the workflow, which may not have been read."""
    return not any(_differences(attempt, seen))


def assert_current_attempt_snapshot(attempt: Attempt, snapshot: Snapshot, lease_seconds_left: float) -> None:
    """Raise `StaleAttemptError`, which names the field, unless Conductor waits for exactly this attempt from this poll."""
    for field, theirs, ours in _differences(attempt, snapshot):
        raise StaleAttemptError(f"the attempt is no longer current in Conductor: {field} is {theirs}, not {ours}")
    if snapshot.workflow_status not in ACTIVE_WORKFLOW:
        raise StaleAttemptError(
            f"the attempt is no longer current in Conductor: workflow status is {snapshot.workflow_status}, not RUNNING or PAUSED"
        )
    if lease_seconds_left <= 0:
        raise StaleAttemptError(
            f"the lease expired {-lease_seconds_left:.1f} s ago: Conductor may have handed out the task again"
        )


def _differences(attempt: Attempt, seen: Snapshot) -> Iterator[tuple[str, object, object]]:
    """Fields in which the task is not the polled one: name, value read, value polled.

    `worker_id` contains a nonce made for each poll: a rerun hands out the same task id and retry count again, and only the
    nonce, the start time and the poll count distinguish the two executions.
    """
    compared: tuple[tuple[str, object, object], ...] = (
        ("workflow_instance_id", seen.workflow_id, attempt.workflow_id),
        ("task_id", seen.task_id, attempt.task_id),
        ("status", seen.status, TaskState.IN_PROGRESS),
        ("retry_count", seen.retry_count, attempt.retry_count),
        # A human step is not polled, so no worker id was stored.
        ("worker_id", seen.worker_id, attempt.worker_id or None),
        ("start_time", seen.start_time, attempt.start_time),
        ("poll_count", seen.poll_count, attempt.poll_count),
    )
    return (field for field in compared if field[1] != field[2])
