"""The attempt fence lets exactly the polled attempt through and names what differs."""

from dataclasses import replace

import pytest

from perago.errors import StaleAttemptError
from perago.model import Attempt, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol.fence import assert_current_attempt_snapshot

ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 1, "ref", 3, 0, TaskType("x"), WorkerId("w0001-nonce"), 1234, 1)
CURRENT = Snapshot(WorkflowId("w"), TaskId("t"), 1, "IN_PROGRESS", WorkerId("w0001-nonce"), 1234, 1, "RUNNING", {})


@pytest.mark.parametrize("workflow_status", ["RUNNING", "PAUSED"])
def test_the_current_attempt_passes(workflow_status: str) -> None:
    assert_current_attempt_snapshot(ATTEMPT, replace(CURRENT, workflow_status=workflow_status), 0.001)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("workflow_id", "other", "workflow_instance_id is other, not w"),
        ("task_id", "other", "task_id is other, not t"),
        ("status", "TIMED_OUT", "status is TIMED_OUT, not IN_PROGRESS"),
        ("status", "SCHEDULED", "status is SCHEDULED"),
        ("retry_count", 2, "retry_count is 2, not 1"),
        ("worker_id", "w0001-later", "worker_id is w0001-later"),
        ("worker_id", None, "worker_id is None"),
        ("start_time", 1235, "start_time is 1235"),
        ("poll_count", 2, "poll_count is 2"),
        ("workflow_status", "TERMINATED", "workflow status is TERMINATED, not RUNNING or PAUSED"),
        ("workflow_status", "COMPLETED", "workflow status is COMPLETED"),
        ("workflow_status", "FAILED", "workflow status is FAILED"),
        ("workflow_status", "TIMED_OUT", "workflow status is TIMED_OUT"),
        ("workflow_status", "", "workflow status is , not"),
    ],
)
def test_any_other_does_not_and_the_message_says_why(field: str, value: object, said: str) -> None:
    with pytest.raises(StaleAttemptError, match=said):
        assert_current_attempt_snapshot(ATTEMPT, replace(CURRENT, **{field: value}), 60)


@pytest.mark.parametrize("left", [0.0, -3.25])
def test_a_lease_that_ran_out_does_not(left: float) -> None:
    with pytest.raises(StaleAttemptError, match="the lease ran out"):
        assert_current_attempt_snapshot(ATTEMPT, CURRENT, left)
