"""The attempt fence: an attempt as it was polled and a fresh read of it come in; a stale attempt leaves as an error."""

from perago.errors import StaleAttemptError
from perago.model import Attempt, Snapshot

IN_PROGRESS = "IN_PROGRESS"
COMPLETED = "COMPLETED"
UNFINISHED_TASK = frozenset({"SCHEDULED", IN_PROGRESS})
ACTIVE_WORKFLOW = frozenset({"RUNNING", "PAUSED"})
"""A pause stops scheduling; tasks that run go on, and Conductor takes their results."""


def assert_current_attempt_snapshot(attempt: Attempt, snapshot: Snapshot, lease_seconds_left: float) -> None:
    """Raise `StaleAttemptError`, naming the field, unless Conductor still wants exactly this attempt from exactly this poll.

    `worker_id` carries a nonce made for each poll: a rerun hands out the same task id and retry count again, and only the
    nonce, the start time and the poll count tell its worker from the one before.
    """
    wanted: tuple[tuple[str, object, object], ...] = (
        ("workflow_instance_id", attempt.workflow_id, snapshot.workflow_id),
        ("task_id", attempt.task_id, snapshot.task_id),
        ("status", IN_PROGRESS, snapshot.status),
        ("retry_count", attempt.retry_count, snapshot.retry_count),
        ("worker_id", attempt.worker_id, snapshot.worker_id),
        ("start_time", attempt.start_time, snapshot.start_time),
        ("poll_count", attempt.poll_count, snapshot.poll_count),
    )
    for field, ours, theirs in wanted:
        if ours != theirs:
            raise StaleAttemptError(f"Conductor no longer wants this attempt: {field} is {theirs}, not {ours}")
    if snapshot.workflow_status not in ACTIVE_WORKFLOW:
        raise StaleAttemptError(
            f"Conductor no longer wants this attempt: workflow status is {snapshot.workflow_status}, not RUNNING or PAUSED"
        )
    if lease_seconds_left <= 0:
        raise StaleAttemptError(
            f"the lease ran out {-lease_seconds_left:.1f} s ago: Conductor may have given the task to another"
        )
