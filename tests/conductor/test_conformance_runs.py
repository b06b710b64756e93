"""Runs of a workflow on a real Conductor and on the fake: what a restart, a rerun, a pause and a fork leave to be seen."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support import conductor_sites
from tests.support.conductor_sites import Arranged, nonce, take

from perago.conductor import reporting
from perago.errors import ConductorNotFound, StaleAttemptError, TaskStatus
from perago.model import Attempt, Outcome, WorkflowId
from perago.protocol import fence, head, rivals

DONE = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 3}})
FAILED = Outcome(TaskStatus.FAILED, None, "the disk is full")
MEGABYTE = 1024 * 1024


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.server)])
def arranged(request: pytest.FixtureRequest) -> Iterator[Arranged]:
    if request.param == "fake":
        yield conductor_sites.Fake()
        return
    real = conductor_sites.Real(request.getfixturevalue("stack").conductor_url)
    yield real
    real.close()


def fenced(arranged: Arranged, attempt: Attempt) -> None:
    seen = arranged.conductor.snapshot(attempt.workflow_id, attempt.task_id)
    fence.assert_current_attempt_snapshot(attempt, seen, 60)


def created(arranged: Arranged, attempt: Attempt) -> int:
    return arranged.conductor.snapshot(attempt.workflow_id, attempt.task_id).workflow_created


def test_a_snapshot_tells_when_its_workflow_was_created_and_what_it_is_called(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    seen = arranged.conductor.snapshot(attempt.workflow_id, attempt.task_id)
    assert 0 < seen.workflow_created <= seen.start_time == attempt.start_time
    assert seen.workflow_name
    task = arranged.conductor.task(attempt.task_id)
    assert (task.workflow_created, task.workflow_status, task.workflow_name) == (0, "", seen.workflow_name)


def test_the_creation_time_stays_through_a_retry_a_pause_and_the_end(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    first = take(arranged.conductor, task_type).attempt
    at = created(arranged, first)
    arranged.conductor.report(first, FAILED, timeout=10)
    second = take(arranged.conductor, task_type).attempt
    arranged.pause(workflow_id)
    arranged.resume(workflow_id)
    arranged.conductor.report(second, DONE, timeout=10)
    assert (created(arranged, first), created(arranged, second)) == (at, at)
    assert arranged.workflow_status(workflow_id) == "COMPLETED"


def test_of_two_workflows_the_one_that_was_started_first_goes_first(arranged: Arranged) -> None:
    early, late = arranged.task_type(), arranged.task_type()
    first, second = arranged.start(early), arranged.start(late)
    later = take(arranged.conductor, late).attempt
    earlier = take(arranged.conductor, early).attempt
    seen = [
        arranged.conductor.snapshot(workflow_id, attempt.task_id) for workflow_id, attempt in ((first, earlier), (second, later))
    ]
    assert rivals.precedence(seen[0]) < rivals.precedence(seen[1])


def completed(arranged: Arranged) -> tuple[WorkflowId, Attempt]:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    arranged.conductor.report(attempt, DONE, timeout=10)
    assert arranged.workflow_status(workflow_id) == "COMPLETED"
    return workflow_id, attempt


def test_a_restart_deletes_the_tasks_and_renews_the_creation_time(arranged: Arranged) -> None:
    workflow_id, before = completed(arranged)
    at = created(arranged, before)
    arranged.restart(workflow_id)
    with pytest.raises(ConductorNotFound):
        arranged.conductor.task(before.task_id)
    with pytest.raises(ConductorNotFound):
        arranged.conductor.snapshot(workflow_id, before.task_id)
    after = take(arranged.conductor, before.task_type).attempt
    assert after.workflow_id == workflow_id
    assert after.task_id != before.task_id
    assert (after.retry_count, after.reference_name) == (0, before.reference_name)
    assert created(arranged, after) > at
    fenced(arranged, after)


def test_a_rerun_keeps_the_task_and_the_creation_time_and_clears_the_output(arranged: Arranged) -> None:
    workflow_id, before = completed(arranged)
    at = created(arranged, before)
    arranged.rerun(workflow_id, before.task_id)
    waiting = arranged.conductor.snapshot(workflow_id, before.task_id)
    assert (waiting.status, waiting.workflow_status, waiting.workflow_created) == ("SCHEDULED", "RUNNING", at)
    assert head.accepted_ref(waiting) is None
    after = take(arranged.conductor, before.task_type).attempt
    assert after.task_id == before.task_id
    fenced(arranged, after)
    with pytest.raises(StaleAttemptError):
        fenced(arranged, before)


def test_a_rerun_deletes_the_tasks_after_it(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type, task_type)
    attempts: list[Attempt] = []
    for _ in range(2):
        attempts.append(take(arranged.conductor, task_type).attempt)
        arranged.conductor.report(attempts[-1], DONE, timeout=10)
    at = created(arranged, attempts[1])
    arranged.rerun(workflow_id, attempts[0].task_id)
    with pytest.raises(ConductorNotFound):
        arranged.conductor.task(attempts[1].task_id)
    again = take(arranged.conductor, task_type).attempt
    arranged.conductor.report(again, DONE, timeout=10)
    following = take(arranged.conductor, task_type).attempt
    assert following.reference_name == "step1"
    assert following.task_id != attempts[1].task_id
    assert created(arranged, following) == at


def test_a_paused_workflow_keeps_its_task_passes_the_fence_and_takes_its_completion(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type, task_type)
    attempt = take(arranged.conductor, task_type).attempt
    arranged.pause(workflow_id)
    assert arranged.conductor.snapshot(workflow_id, attempt.task_id).workflow_status == "PAUSED"
    fenced(arranged, attempt)
    arranged.conductor.extend_lease(attempt)
    fenced(arranged, attempt)
    arranged.conductor.report(attempt, DONE, timeout=10)
    assert reporting.judge(attempt, DONE, arranged.conductor.snapshot(workflow_id, attempt.task_id)) is True
    assert arranged.conductor.poll(task_type, nonce(), wait_seconds=0.3) is None
    arranged.resume(workflow_id)
    following = take(arranged.conductor, task_type).attempt
    assert following.reference_name == "step1"


def test_a_task_in_a_queue_is_handed_out_during_a_pause(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    arranged.pause(workflow_id)
    attempt = take(arranged.conductor, task_type).attempt
    fenced(arranged, attempt)
    arranged.conductor.report(attempt, DONE, timeout=10)
    assert arranged.conductor.task(attempt.task_id).status == "COMPLETED"


def test_a_failure_during_a_pause_is_retried_when_it_ends(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    arranged.pause(workflow_id)
    arranged.conductor.report(attempt, FAILED, timeout=10)
    assert arranged.conductor.poll(task_type, nonce(), wait_seconds=0.3) is None
    arranged.resume(workflow_id)
    assert take(arranged.conductor, task_type).attempt.retry_count == 1


def test_the_lanes_of_a_fork_run_together_and_the_next_step_waits_for_all(arranged: Arranged) -> None:
    lane, last = arranged.task_type(), arranged.task_type()
    workflow_id = arranged.start(lane, lane, last, lanes=2)
    one, two = take(arranged.conductor, lane).attempt, take(arranged.conductor, lane).attempt
    assert {one.reference_name, two.reference_name} == {"step0", "step1"}
    assert one.task_id != two.task_id
    seen = [arranged.conductor.snapshot(workflow_id, attempt.task_id) for attempt in (one, two)]
    assert seen[0].workflow_created == seen[1].workflow_created
    assert len({rivals.precedence(found) for found in seen}) == 2
    arranged.conductor.report(one, DONE, timeout=10)
    fenced(arranged, two)
    assert arranged.conductor.poll(last, nonce(), wait_seconds=0.3) is None
    arranged.conductor.report(two, DONE, timeout=10)
    assert take(arranged.conductor, last).attempt.reference_name == "step2"


def test_a_lane_that_fails_for_good_ends_the_other(arranged: Arranged) -> None:
    lane = arranged.task_type(retryCount=0)
    workflow_id = arranged.start(lane, lane, lanes=2)
    one, two = take(arranged.conductor, lane).attempt, take(arranged.conductor, lane).attempt
    arranged.conductor.report(one, FAILED, timeout=10)
    seen = arranged.conductor.snapshot(workflow_id, two.task_id)
    assert (seen.status, seen.workflow_status) == ("CANCELED", "FAILED")


def test_a_large_output_is_elsewhere_and_the_task_is_completed_all_the_same(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    large = Outcome(TaskStatus.COMPLETED, {"result": {"text": "x" * (3 * MEGABYTE + 4096)}})
    arranged.conductor.report(attempt, large, timeout=30)
    seen = arranged.conductor.snapshot(workflow_id, attempt.task_id)
    assert (seen.status, seen.output_is_elsewhere, seen.output) == ("COMPLETED", True, {})
    assert head.accepted_ref(seen) is None
    assert reporting.judge(attempt, large, seen) is True


def test_a_smaller_output_is_not(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    output = {"result": {"text": "x" * (2 * MEGABYTE)}}
    arranged.conductor.report(attempt, Outcome(TaskStatus.COMPLETED, output), timeout=30)
    seen = arranged.conductor.snapshot(workflow_id, attempt.task_id)
    assert not seen.output_is_elsewhere
    assert seen.output == output


def naming(ref: str) -> Outcome:
    return Outcome(TaskStatus.COMPLETED, {"workspace": {"ref": ref}, "result": {}})


def test_a_late_report_after_a_rerun_is_taken_and_the_new_execution_is_told_which_commit_counts(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    workflow_id = arranged.start(task_type)
    before = take(arranged.conductor, task_type).attempt
    arranged.conductor.report(before, naming("first"), timeout=10)
    arranged.rerun(workflow_id, before.task_id)
    after = take(arranged.conductor, task_type).attempt
    arranged.conductor.report(before, naming("first"), timeout=10)
    seen = arranged.conductor.task(after.task_id)
    assert (seen.status, head.accepted_ref(seen)) == ("COMPLETED", "first")
    verdict = reporting.judge(after, naming("second"), seen)
    assert isinstance(verdict, reporting.Superseded)
    assert verdict.accepted == "first"


def test_what_an_attempt_removed_reaches_the_task_log_with_its_completion(arranged: Arranged) -> None:
    task_type = arranged.task_type()
    arranged.start(task_type)
    attempt = take(arranged.conductor, task_type).attempt
    arranged.conductor.report(attempt, replace(DONE, removals=("branch main was at x",), log=("a line",)), timeout=10)
    assert arranged.logs(attempt.task_id) == ["branch main was at x\na line"]
