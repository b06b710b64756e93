"""What Conductor does with HUMAN tasks, as far as human steps rely on it; on the real server."""

import threading
from typing import Any

import pytest
from tests.support.conductor_sites import RealConductorSite, nonce
from tests.support.waiting import eventually

from perago.conductor import reporting, task_json
from perago.conductor.workflows import WorkflowClient
from perago.errors import TaskStatus
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkflowId
from perago.protocol import fence

DONE = Outcome(TaskStatus.COMPLETED, {"result": {"approved": True}, "by": "alice"})
NO = Outcome(TaskStatus.FAILED_WITH_TERMINAL_ERROR, None, "rejected by alice: no")


def human(name: str = "human") -> dict[str, Any]:
    given = {"form": {"version": 1, "result": {}}, "question": {}}
    return {"name": name, "taskReferenceName": "review", "type": "HUMAN", "inputParameters": given}


def waiting(real: RealConductorSite, workflow: WorkflowId) -> dict[str, Any]:
    def found() -> dict[str, Any]:
        tasks = real.call("GET", f"/workflow/{workflow}?includeTasks=true")["tasks"]
        return next((task for task in reversed(tasks) if task["status"] == "IN_PROGRESS"), {})

    return eventually(found, within=20, what="a task that waits")


def started(real: RealConductorSite, *after: dict[str, Any]) -> tuple[WorkflowId, Attempt]:
    workflow = real.start_workflow([human(), *after])
    return workflow, task_json.attempt(waiting(real, workflow))


def test_it_is_in_progress_at_once_and_no_poll_gets_it(real: RealConductorSite) -> None:
    workflow, attempt = started(real)
    assert (attempt.worker_id, attempt.poll_count, attempt.retry_count) == ("", 0, 0)
    assert attempt.start_time > 0
    for name in ("HUMAN", "human"):
        polled = real.client.poll(TaskType(name), nonce(), wait_seconds=0.2)
        assert polled is None or polled.attempt.task_id != attempt.task_id
    seen = real.client.snapshot(workflow, attempt.task_id)
    fence.assert_current_attempt_snapshot(attempt, seen, 1)


def test_the_search_index_lists_those_that_wait(real: RealConductorSite) -> None:
    client = WorkflowClient(real.url, timeout=20)
    workflow, attempt = started(real)

    def listed() -> bool:
        return attempt.task_id in [task["taskId"] for task in client.human_tasks(1000)]

    eventually(listed, within=20, what="the task in the index")
    real.client.report(attempt, DONE, timeout=10)
    eventually(lambda: not listed(), within=20, what="the end of the task in the index")
    assert real.workflow_status(workflow) == "COMPLETED"
    client.close()


def test_a_completion_is_accepted_once_and_also_during_a_pause(real: RealConductorSite) -> None:
    workflow, attempt = started(real)
    real.pause(workflow)
    real.client.report(attempt, DONE, timeout=10)
    assert reporting.judge(attempt, DONE, real.client.task(attempt.task_id)) is True
    other = Outcome(TaskStatus.COMPLETED, {"result": {"approved": False}, "by": "bob"})
    real.client.report(attempt, other, timeout=10)
    assert isinstance(reporting.judge(attempt, other, real.client.task(attempt.task_id)), reporting.Superseded)


def test_a_rejection_ends_the_workflow_and_a_retry_makes_a_new_task(real: RealConductorSite) -> None:
    workflow, attempt = started(real)
    real.client.report(attempt, NO, timeout=10)
    assert real.workflow_status(workflow) == "FAILED"
    assert real.reason(attempt.task_id) == "rejected by alice: no"
    real.call("POST", f"/workflow/{workflow}/retry")
    again = task_json.attempt(waiting(real, workflow))
    assert again.task_id != attempt.task_id
    assert again.retry_count == 1


def test_a_rerun_keeps_the_task_and_clears_its_start_time(real: RealConductorSite) -> None:
    """The time at which it was scheduled tells the two apart, and the worker id of the completion stays."""
    workflow, attempt = started(real)
    seen = [attempt.start_time]
    for _ in range(2):
        real.client.report(attempt, DONE, timeout=10)
        real.rerun(workflow, attempt.task_id)
        task = waiting(real, workflow)
        assert (task["taskId"], task["startTime"], task["retryCount"]) == (attempt.task_id, 0, 0)
        attempt = task_json.attempt(task)
        seen.append(attempt.start_time)
        fence.assert_current_attempt_snapshot(attempt, real.client.snapshot(workflow, attempt.task_id), 1)
    assert len({*seen}) == 3


def test_termination_cancels_it_and_a_restart_makes_a_new_one(real: RealConductorSite) -> None:
    workflow, attempt = started(real)
    real.terminate(workflow)
    assert real.client.task(attempt.task_id).status == "CANCELED"
    real.client.report(attempt, DONE, timeout=10)
    assert real.client.task(attempt.task_id).status == "CANCELED"
    real.restart(workflow)
    assert task_json.attempt(waiting(real, workflow)).task_id != attempt.task_id


def test_a_task_definition_of_its_name_limits_its_time(real: RealConductorSite) -> None:
    name = real.task_type(timeoutSeconds=1, responseTimeoutSeconds=1, timeoutPolicy="TIME_OUT_WF")
    workflow = real.start_workflow([human(name)])
    task_id = TaskId(waiting(real, workflow)["taskId"])

    def timed_out() -> bool:
        real.call("PUT", f"/workflow/decide/{workflow}")
        return real.client.task(task_id).status == "TIMED_OUT"

    eventually(timed_out, within=20, what="the end of its time")
    assert real.workflow_status(workflow) == "TIMED_OUT"


@pytest.mark.chaos
def test_of_two_completions_at_once_the_next_task_may_take_the_one_that_is_lost(real: RealConductorSite) -> None:
    """Why people announce themselves in lakeFS first: Conductor lets two reports overlap, and does not say which it kept."""
    given = {"evaluatorType": "graaljs", "expression": "$.v", "v": "${review.output.by}"}
    after = {"name": "x", "taskReferenceName": "after", "type": "INLINE", "inputParameters": given}
    kept: list[tuple[str, str]] = []
    for _ in range(100):
        workflow, attempt = started(real, after)
        outcomes = [Outcome(TaskStatus.COMPLETED, {"by": name}) for name in ("alice", "bob")]
        threads = [threading.Thread(target=real.client.report, args=(attempt, one), kwargs={"timeout": 10}) for one in outcomes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda workflow=workflow: real.workflow_status(workflow) == "COMPLETED", within=20)
        first, second = real.call("GET", f"/workflow/{workflow}?includeTasks=true")["tasks"]
        kept.append((first["outputData"]["by"], second["outputData"]["result"]))
    assert {one for one, _ in kept} == {"alice", "bob"}
