"""Conformance suite of the client on a real Conductor and of the in-memory one."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support import conductor_sites
from tests.support.conductor_sites import ConductorSite, nonce, take
from tests.support.waiting import eventually

from perago.conductor import reporting
from perago.errors import ConductorNotFound, TaskStatus
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId, WorkflowRun
from perago.protocol import fence

DONE = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 3, "none": None, "price": 0.1, "big": 2**70}})
FAILED = Outcome(TaskStatus.FAILED, None, "the disk is full", ("line one", "line two ü"))


def test_an_empty_queue_answers_nothing_in_time(site: ConductorSite) -> None:
    assert site.conductor.poll(site.task_type(), nonce(), wait_seconds=0.1) is None


def test_a_polled_task_carries_its_identity_its_input_and_our_nonce(site: ConductorSite) -> None:
    task_type = site.task_type(responseTimeoutSeconds=45, timeoutSeconds=90)
    workflow_id = site.start(task_type)
    polled = take(site.conductor, task_type)
    attempt = polled.attempt
    assert (attempt.workflow_id, attempt.task_type, attempt.reference_name) == (workflow_id, task_type, "step0")
    assert (attempt.retry_count, attempt.iteration, attempt.poll_count) == (0, 0, 1)
    assert attempt.worker_id.startswith("tests0001-")
    assert attempt.start_time > 0
    assert polled.input == {"params": {"n": 0}}
    assert (polled.response_timeout_seconds, polled.timeout_seconds) == (45, 90)


def test_a_snapshot_of_what_was_polled_is_current(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    seen = site.conductor.snapshot(workflow_id, attempt.task_id)
    assert fence.is_current(attempt, seen)
    assert seen.workflow_status == "RUNNING"
    assert site.conductor.workflow_run(workflow_id) == WorkflowRun("RUNNING", seen.workflow_created, 0)
    assert fence.is_current(attempt, site.conductor.task(attempt.task_id))


def test_a_lease_extension_keeps_the_task_with_its_worker(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.extend_lease(attempt)
    assert fence.is_current(attempt, site.conductor.task(attempt.task_id))
    assert site.conductor.poll(task_type, nonce(), wait_seconds=0.3) is None


def test_an_extension_by_a_worker_of_before_leaves_the_task_with_its_worker(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.extend_lease(replace(attempt, worker_id=nonce()))
    assert fence.is_current(attempt, site.conductor.task(attempt.task_id))


def test_a_completion_is_taken_and_read_back_as_it_was_sent(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, DONE, timeout=10)
    seen = site.conductor.snapshot(workflow_id, attempt.task_id)
    assert reporting.judge(attempt, DONE, seen) is True
    assert seen.output == DONE.output
    assert seen.workflow_status == "COMPLETED"


def test_a_report_brings_the_next_task_and_leaves_its_poll_on_the_one_that_ended(site: ConductorSite) -> None:
    task_type = site.task_type()
    ended, follows = site.start(task_type), site.start(task_type)
    attempt, name = take(site.conductor, task_type).attempt, nonce()
    found = site.conductor.report_and_poll(attempt, DONE, name, timeout=10)
    assert found is not None
    assert {attempt.workflow_id, found.attempt.workflow_id} == {ended, follows}
    assert found.attempt.worker_id == name
    assert found.input == {"params": {"n": 0}}
    assert fence.is_current(found.attempt, site.conductor.task(found.attempt.task_id))
    seen = site.conductor.snapshot(attempt.workflow_id, attempt.task_id)
    assert (seen.worker_id, seen.output, seen.workflow_status) == (name, DONE.output, "COMPLETED")
    assert reporting.judge(replace(attempt, worker_id=name), DONE, seen) is True


def test_a_report_that_brings_nothing_is_taken_all_the_same(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    assert site.conductor.report_and_poll(attempt, DONE, nonce(), timeout=10) is None
    assert site.conductor.snapshot(workflow_id, attempt.task_id).workflow_status == "COMPLETED"


def test_a_report_that_is_ignored_brings_the_next_task_and_leaves_no_trace(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, DONE, timeout=10)
    follows, name = site.start(task_type), nonce()
    other = Outcome(TaskStatus.COMPLETED, {"result": "another"})
    found = site.conductor.report_and_poll(attempt, other, name, timeout=10)
    assert found is not None
    assert (found.attempt.workflow_id, found.attempt.worker_id) == (follows, name)
    seen = site.conductor.task(attempt.task_id)
    assert (seen.worker_id, seen.output) == (attempt.worker_id, DONE.output)


def test_a_report_for_a_task_that_is_gone_brings_nothing(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.start(task_type)
    with pytest.raises(ConductorNotFound):
        site.conductor.report_and_poll(replace(attempt, task_id=TaskId("no-such-task")), DONE, nonce(), timeout=10)
    assert take(site.conductor, task_type).attempt.poll_count == 1


def test_a_failure_carries_its_reason_its_log_and_no_output_and_a_retry_is_a_new_task(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    first = take(site.conductor, task_type).attempt
    site.conductor.report(first, replace(FAILED, output={"leftover": 1}), timeout=10)
    seen = site.conductor.task(first.task_id)
    assert (seen.status, seen.output) == ("FAILED", {})
    assert site.reason(first.task_id) == "the disk is full"
    assert site.logs(first.task_id) == ["line one\nline two ü"]
    second = take(site.conductor, task_type).attempt
    assert second.task_id != first.task_id
    assert (second.retry_count, second.reference_name) == (1, first.reference_name)
    assert second.seq > first.seq
    assert second.logical_task == first.logical_task


def test_a_terminal_failure_ends_the_workflow(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, Outcome(TaskStatus.FAILED_WITH_TERMINAL_ERROR, None, "never"), timeout=10)
    assert site.conductor.snapshot(workflow_id, attempt.task_id).status == "FAILED_WITH_TERMINAL_ERROR"
    assert site.workflow_status(workflow_id) == "FAILED"


def test_a_second_completion_answers_alike_and_changes_nothing(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type, task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, DONE, timeout=10)
    other = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 4}})
    site.conductor.report(attempt, other, timeout=10)
    seen = site.conductor.task(attempt.task_id)
    assert seen.output == DONE.output
    assert reporting.judge(attempt, other, seen) == reporting.Superseded("the task was completed with another output")


def test_a_terminated_workflow_ignores_a_completion_that_answers_like_any_other(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.terminate(workflow_id)
    site.conductor.report(attempt, DONE, timeout=10)
    seen = site.conductor.snapshot(workflow_id, attempt.task_id)
    assert (seen.status, seen.workflow_status) == ("CANCELED", "TERMINATED")
    assert reporting.judge(attempt, DONE, seen) == reporting.Superseded("the task is CANCELED")


def test_a_rerun_hands_out_the_same_ids_and_the_old_worker_is_told_apart(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    before = take(site.conductor, task_type).attempt
    site.conductor.report(before, DONE, timeout=10)
    site.rerun(workflow_id, before.task_id)
    waiting = site.conductor.task(before.task_id)
    assert not fence.same_execution(before, waiting)
    after = take(site.conductor, task_type).attempt
    assert (after.task_id, after.retry_count) == (before.task_id, before.retry_count)
    seen = site.conductor.task(before.task_id)
    assert not fence.is_current(before, seen)
    assert fence.is_current(after, seen)


def test_a_task_handed_back_goes_to_the_next_poll_and_spends_no_retry(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    first = take(site.conductor, task_type).attempt
    site.conductor.hand_back(first)
    second = take(site.conductor, task_type).attempt
    assert (second.task_id, second.retry_count, second.poll_count) == (first.task_id, 0, 2)
    assert not fence.is_current(first, site.conductor.task(first.task_id))


def test_a_task_is_found_by_the_poll_that_it_was_handed_to(site: ConductorSite) -> None:
    conductor, kind = site.conductor, site.task_type()
    site.start(kind)
    site.start(kind)
    ours, theirs = take(conductor, kind), take(conductor, kind)

    def found() -> list[Attempt]:
        return list(conductor.handed_out(kind, {ours.attempt.worker_id}))

    assert eventually(found, within=10) == [ours.attempt]
    assert list(conductor.handed_out(kind, {WorkerId("another-worker")})) == []
    conductor.report(ours.attempt, DONE, timeout=5)
    eventually(lambda: not found(), within=10)
    assert list(conductor.handed_out(kind, {theirs.attempt.worker_id})) == [theirs.attempt]


def test_a_long_reason_is_cut_and_not_refused(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, Outcome(TaskStatus.FAILED, None, "x" * 800), timeout=10)
    assert site.reason(attempt.task_id) == "x" * 500


def test_log_lines_reach_the_task_also_after_its_end(site: ConductorSite) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    site.conductor.report(attempt, DONE, timeout=10)
    site.conductor.log(attempt.task_id, ["Traceback\n  File x", 'a "quoted" line'])
    assert site.logs(attempt.task_id) == ['Traceback\n  File x\na "quoted" line']


def test_what_does_not_exist_is_not_found(site: ConductorSite) -> None:
    with pytest.raises(ConductorNotFound):
        site.conductor.task(TaskId("no-such-task"))
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    with pytest.raises(ConductorNotFound):
        site.conductor.snapshot(WorkflowId("no-such-workflow"), attempt.task_id)
    with pytest.raises(ConductorNotFound):
        site.conductor.report(replace(attempt, task_id=TaskId("no-such-task")), DONE, timeout=10)


def test_definitions_are_created_then_updated(site: ConductorSite) -> None:
    made: dict[str, Any] = conductor_sites.definition(retryCount=1)
    name = TaskType(made["name"])
    assert site.conductor.task_definition(name) is None
    site.conductor.put_task_definition(made)
    site.conductor.put_task_definition(made | {"retryCount": 5})
    found = site.conductor.task_definition(name)
    assert found is not None
    assert (found["name"], found["retryCount"], found["responseTimeoutSeconds"]) == (name, 5, 60)


@pytest.mark.parametrize("outcome", [DONE, FAILED], ids=["completed", "failed"])
def test_a_delivery_is_accepted_after_one_report(site: ConductorSite, outcome: Outcome) -> None:
    task_type = site.task_type()
    site.start(task_type)
    attempt = take(site.conductor, task_type).attempt
    delivery = reporting.deliver(site.conductor, attempt, outcome, deadline=20, request_timeout=10, clock=lambda: 0)
    assert delivery == reporting.Accepted(sent=1)


def test_a_delivery_after_a_rerun_sends_nothing(site: ConductorSite) -> None:
    task_type = site.task_type()
    workflow_id = site.start(task_type)
    before = take(site.conductor, task_type).attempt
    site.conductor.report(before, DONE, timeout=10)
    site.rerun(workflow_id, before.task_id)
    after = take(site.conductor, task_type).attempt
    delivery = reporting.deliver(site.conductor, before, DONE, deadline=20, request_timeout=10, clock=lambda: 0)
    assert isinstance(delivery, reporting.Superseded)
    assert fence.is_current(after, site.conductor.task(after.task_id))
