"""Conformance suite for runs of a workflow: restart, rerun, pause and fork, on a real Conductor and the in-memory one."""

from dataclasses import replace

import pytest
from tests.support.conductor_sites import ConductorSite, nonce, take

from perago.conductor import reporting
from perago.errors import ConductorNotFound, StaleAttemptError, TaskStatus
from perago.model import Attempt, Outcome, WorkflowId
from perago.protocol import fence, head, rivals

DONE = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 3}})
FAILED = Outcome(TaskStatus.FAILED, None, "the disk is full")
MEGABYTE = 1024 * 1024


def fenced(site: ConductorSite, attempt: Attempt) -> None:
    seen = site.conductor.snapshot(attempt.workflow_id, attempt.task_id)
    fence.assert_current_attempt_snapshot(attempt, seen, 60)


def created(site: ConductorSite, attempt: Attempt) -> int:
    return site.conductor.snapshot(attempt.workflow_id, attempt.task_id).workflow_created


def test_a_snapshot_tells_when_its_workflow_was_created_and_what_it_is_called(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    seen = site.conductor.snapshot(attempt.workflow_id, attempt.task_id)
    assert 0 < seen.workflow_created <= seen.start_time == attempt.start_time
    assert seen.workflow_name
    task = site.conductor.task(attempt.task_id)
    assert (task.workflow_created, task.workflow_status, task.workflow_name) == (0, "", seen.workflow_name)


def test_the_creation_time_stays_through_a_retry_a_pause_and_the_end(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    first = take(site.conductor, task_type).attempt
    at = created(site, first)
    site.conductor.report(first, FAILED, timeout=10)
    second = take(site.conductor, task_type).attempt
    site.pause(workflow_id)
    site.resume(workflow_id)
    site.conductor.report(second, DONE, timeout=10)
    assert (created(site, first), created(site, second)) == (at, at)
    assert site.workflow_status(workflow_id) == "COMPLETED"


def test_of_two_workflows_the_one_that_was_started_first_goes_first(site: ConductorSite) -> None:
    early, late = site.task_type(), site.task_type()
    first, second = site.start(early), site.start(late)
    later = take(site.conductor, late).attempt
    earlier = take(site.conductor, early).attempt
    seen = [site.conductor.snapshot(workflow_id, attempt.task_id) for workflow_id, attempt in ((first, earlier), (second, later))]
    assert rivals.precedence(seen[0]) < rivals.precedence(seen[1])


def completed(site: ConductorSite) -> tuple[WorkflowId, Attempt]:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, DONE, timeout=10)
    assert site.workflow_status(workflow_id) == "COMPLETED"
    return workflow_id, attempt


def test_a_restart_deletes_the_tasks_and_renews_the_creation_time(site: ConductorSite) -> None:
    workflow_id, before = completed(site)
    at = created(site, before)
    site.restart(workflow_id)
    with pytest.raises(ConductorNotFound):
        site.conductor.task(before.task_id)
    with pytest.raises(ConductorNotFound):
        site.conductor.snapshot(workflow_id, before.task_id)
    after = take(site.conductor, before.task_type).attempt
    assert after.workflow_id == workflow_id
    assert after.task_id != before.task_id
    assert (after.retry_count, after.reference_name) == (0, before.reference_name)
    assert created(site, after) > at
    fenced(site, after)


def test_a_rerun_keeps_the_task_and_the_creation_time_and_clears_the_output(site: ConductorSite) -> None:
    workflow_id, before = completed(site)
    at = created(site, before)
    site.rerun(workflow_id, before.task_id)
    waiting = site.conductor.snapshot(workflow_id, before.task_id)
    assert (waiting.status, waiting.workflow_status, waiting.workflow_created) == ("SCHEDULED", "RUNNING", at)
    assert head.accepted_ref(waiting) is None
    after = take(site.conductor, before.task_type).attempt
    assert after.task_id == before.task_id
    fenced(site, after)
    with pytest.raises(StaleAttemptError):
        fenced(site, before)


def test_a_rerun_deletes_the_tasks_after_it(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type, task_type)
    attempts: list[Attempt] = []
    for _ in range(2):
        attempts.append(take(site.conductor, task_type).attempt)
        site.conductor.report(attempts[-1], DONE, timeout=10)
    at = created(site, attempts[1])
    site.rerun(workflow_id, attempts[0].task_id)
    with pytest.raises(ConductorNotFound):
        site.conductor.task(attempts[1].task_id)
    again = take(site.conductor, task_type).attempt
    site.conductor.report(again, DONE, timeout=10)
    following = take(site.conductor, task_type).attempt
    assert following.reference_name == "step1"
    assert following.task_id != attempts[1].task_id
    assert created(site, following) == at


def test_a_paused_workflow_keeps_its_task_passes_the_fence_and_takes_its_completion(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type, task_type)
    attempt = take(site.conductor, task_type).attempt
    site.pause(workflow_id)
    assert site.conductor.snapshot(workflow_id, attempt.task_id).workflow_status == "PAUSED"
    fenced(site, attempt)
    site.conductor.extend_lease(attempt)
    fenced(site, attempt)
    site.conductor.report(attempt, DONE, timeout=10)
    assert reporting.judge(attempt, DONE, site.conductor.snapshot(workflow_id, attempt.task_id)) is True
    assert site.conductor.poll(task_type, nonce(), wait_seconds=0.3) is None
    site.resume(workflow_id)
    following = take(site.conductor, task_type).attempt
    assert following.reference_name == "step1"


def test_a_task_in_a_queue_is_handed_out_during_a_pause(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    site.pause(workflow_id)
    attempt = take(site.conductor, task_type).attempt
    fenced(site, attempt)
    site.conductor.report(attempt, DONE, timeout=10)
    assert site.conductor.task(attempt.task_id).status == "COMPLETED"


def test_a_failure_during_a_pause_is_retried_when_it_ends(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.pause(workflow_id)
    site.conductor.report(attempt, FAILED, timeout=10)
    assert site.conductor.poll(task_type, nonce(), wait_seconds=0.3) is None
    site.resume(workflow_id)
    assert take(site.conductor, task_type).attempt.retry_count == 1


def test_the_lanes_of_a_fork_run_together_and_the_next_step_waits_for_all(site: ConductorSite) -> None:
    lane, last = site.task_type(), site.task_type()
    workflow_id = site.start(lane, lane, last, lanes=2)
    one, two = take(site.conductor, lane).attempt, take(site.conductor, lane).attempt
    assert {one.reference_name, two.reference_name} == {"step0", "step1"}
    assert one.task_id != two.task_id
    seen = [site.conductor.snapshot(workflow_id, attempt.task_id) for attempt in (one, two)]
    assert seen[0].workflow_created == seen[1].workflow_created
    assert len({rivals.precedence(found) for found in seen}) == 2
    site.conductor.report(one, DONE, timeout=10)
    fenced(site, two)
    assert site.conductor.poll(last, nonce(), wait_seconds=0.3) is None
    site.conductor.report(two, DONE, timeout=10)
    assert take(site.conductor, last).attempt.reference_name == "step2"


def test_a_lane_that_fails_for_good_ends_the_other(site: ConductorSite) -> None:
    lane = site.task_type(retryCount=0)
    workflow_id = site.start(lane, lane, lanes=2)
    one, two = take(site.conductor, lane).attempt, take(site.conductor, lane).attempt
    site.conductor.report(one, FAILED, timeout=10)
    seen = site.conductor.snapshot(workflow_id, two.task_id)
    assert (seen.status, seen.workflow_status) == ("CANCELED", "FAILED")


def test_a_large_output_is_elsewhere_and_the_task_is_completed_all_the_same(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    large = Outcome(TaskStatus.COMPLETED, {"result": {"text": "x" * (3 * MEGABYTE + 4096)}})
    site.conductor.report(attempt, large, timeout=30)
    seen = site.conductor.snapshot(workflow_id, attempt.task_id)
    assert (seen.status, seen.output_is_elsewhere, seen.output) == ("COMPLETED", True, {})
    assert head.accepted_ref(seen) is None
    assert reporting.judge(attempt, large, seen) is True


def test_a_smaller_output_is_not(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    output = {"result": {"text": "x" * (2 * MEGABYTE)}}
    site.conductor.report(attempt, Outcome(TaskStatus.COMPLETED, output), timeout=30)
    seen = site.conductor.snapshot(workflow_id, attempt.task_id)
    assert not seen.output_is_elsewhere
    assert seen.output == output


def naming(ref: str) -> Outcome:
    return Outcome(TaskStatus.COMPLETED, {"workspace": {"ref": ref}, "result": {}})


def test_a_late_report_after_a_rerun_is_taken_and_the_new_execution_is_told_which_commit_counts(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    before = take(site.conductor, task_type).attempt
    site.conductor.report(before, naming("first"), timeout=10)
    site.rerun(workflow_id, before.task_id)
    after = take(site.conductor, task_type).attempt
    site.conductor.report(before, naming("first"), timeout=10)
    seen = site.conductor.task(after.task_id)
    assert (seen.status, head.accepted_ref(seen)) == ("COMPLETED", "first")
    verdict = reporting.judge(after, naming("second"), seen)
    assert isinstance(verdict, reporting.Superseded)
    assert verdict.accepted == "first"


def test_what_an_attempt_removed_reaches_the_task_log_with_its_completion(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, replace(DONE, removals=("branch main was at x",), log=("a line",)), timeout=10)
    assert site.logs(attempt.task_id) == ["branch main was at x\na line"]
