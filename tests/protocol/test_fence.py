"""The attempt fence lets exactly the polled attempt through and names what differs."""

from dataclasses import replace

import pytest

from perago.errors import StaleAttemptError
from perago.model import Attempt, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol.fence import assert_current_attempt_snapshot, is_current, same_execution

ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 1, "ref", 3, 0, TaskType("x"), WorkerId("w0001-nonce"), 1234, 1)
CURRENT = Snapshot(WorkflowId("w"), TaskId("t"), 1, "IN_PROGRESS", WorkerId("w0001-nonce"), 1234, 1, "RUNNING", {})
IDENTITY_DIFFERENCES = [
    ("workflow_id", "other", "workflow_instance_id is other, not w"),
    ("task_id", "other", "task_id is other, not t"),
    ("retry_count", 2, "retry_count is 2, not 1"),
    ("worker_id", "w0001-later", "worker_id is w0001-later"),
    ("worker_id", None, "worker_id is None"),
    ("start_time", 1235, "start_time is 1235"),
    ("poll_count", 2, "poll_count is 2"),
]


@pytest.mark.parametrize("workflow_status", ["RUNNING", "PAUSED"])
def test_current_attempt_passes(workflow_status: str) -> None:
    seen = replace(CURRENT, workflow_status=workflow_status)
    assert_current_attempt_snapshot(ATTEMPT, seen, 0.001)
    assert is_current(ATTEMPT, seen)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *IDENTITY_DIFFERENCES,
        ("status", "TIMED_OUT", "status is TIMED_OUT, not IN_PROGRESS"),
        ("status", "SCHEDULED", "status is SCHEDULED"),
        ("workflow_status", "TERMINATED", "workflow status is TERMINATED, not RUNNING or PAUSED"),
        ("workflow_status", "COMPLETED", "workflow status is COMPLETED"),
        ("workflow_status", "FAILED", "workflow status is FAILED"),
        ("workflow_status", "TIMED_OUT", "workflow status is TIMED_OUT"),
        ("workflow_status", "", "workflow status is , not"),
    ],
)
def test_any_other_attempt_is_refused_with_the_field_that_differs(field: str, value: object, message: str) -> None:
    with pytest.raises(StaleAttemptError, match=message):
        assert_current_attempt_snapshot(ATTEMPT, replace(CURRENT, **{field: value}), 60)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, value, _ in IDENTITY_DIFFERENCES])
def test_task_with_another_identity_is_another_execution(field: str, value: object) -> None:
    seen = replace(CURRENT, **{field: value})
    assert not same_execution(ATTEMPT, seen)
    assert not is_current(ATTEMPT, seen)


def test_ended_task_is_the_same_execution_but_not_current() -> None:
    seen = replace(CURRENT, status="COMPLETED")
    assert same_execution(ATTEMPT, seen)
    assert not is_current(ATTEMPT, seen)


def test_current_does_not_need_the_workflow_to_be_read() -> None:
    assert is_current(ATTEMPT, replace(CURRENT, workflow_status=""))


@pytest.mark.parametrize("left", [0.0, -3.25])
def test_expired_lease_is_refused(left: float) -> None:
    with pytest.raises(StaleAttemptError, match="the lease expired"):
        assert_current_attempt_snapshot(ATTEMPT, CURRENT, left)
