"""A head directly on the input: the state of its task in Conductor decides whether a step may replace it or is refused.

Each case is tested with a head that exists before the step starts and with one that appears while its body runs, and with a step
that adds a file and with one that changes nothing.
"""

import os
import signal
from collections.abc import Callable

import pytest
from tests.support.fault_proxy import HeldRequest
from tests.support.publication import ATTEMPTS, INPUT, REMOVED, SLOTS, PublicationHarness, TargetBranch, loop
from tests.support.waiting import eventually

from perago.model import CommitId, WorkflowId

Make = Callable[[TargetBranch], tuple[CommitId, WorkflowId]]
"""Puts a commit on the branch; with the workflow that made it."""


def completed_with_it(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    workflow = branch.start(branch.step("maker"))
    return branch.harness.completed(workflow, "maker"), workflow


def completed_with_the_input(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    made = held.publish()
    held.complete(branch.base)
    return made, held.workflow


def completed_without_a_workspace(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    made = held.publish()
    held.complete(None)
    return made, held.workflow


def completed_with_another_commit(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    made = held.publish()
    held.complete(CommitId("a" * 64))
    return made, held.workflow


def completed_out_of_sight(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    """The output is too large for Conductor, which moves it to its external storage."""
    held = branch.hold()
    made = held.publish()
    held.complete(made, padding="x" * 4_000_000)
    assert branch.harness.worker_harness.real.call("GET", f"/tasks/{held.task_id}")["externalOutputPayloadStoragePath"]
    return made, held.workflow


def failed(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    made = held.publish()
    held.fail()
    return made, held.workflow


def timed_out(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold(responseTimeoutSeconds=1)
    made = held.publish()
    held.time_out()
    return made, held.workflow


def terminated(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    made = held.publish()
    held.terminate()
    return made, held.workflow


def in_progress(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    held = branch.hold()
    return held.publish(), held.workflow


def removed_from_conductor(branch: TargetBranch) -> tuple[CommitId, WorkflowId]:
    made, workflow = completed_with_it(branch)
    branch.harness.remove(workflow)
    return made, workflow


REPLACED = {
    "completed with the input": (completed_with_the_input, "completed with {base} instead"),
    "completed without a workspace": (completed_without_a_workspace, "completed with no workspace instead"),
    "failed": (failed, "its task is FAILED"),
    "timed out": (timed_out, "its task is TIMED_OUT"),
    "terminated": (terminated, "its task is CANCELED"),
}
REFUSED = {
    "completed with it": (completed_with_it, ("accepted {made} from step maker", "{workflow}", "Start a new workflow with that")),
    "completed with another commit": (completed_with_another_commit, ("Conductor accepted aaaa", "`perago recover`")),
    "completed out of sight": (completed_out_of_sight, ("accepted {made} from step held", "external storage, so it counts")),
    "in progress": (in_progress, ("step held of workflow", "{workflow} has published {made}", "a retry")),
    "removed from Conductor": (
        removed_from_conductor,
        ("step maker", "no longer knows the task", "it may have been accepted"),
    ),
}


def meets(branch: TargetBranch, make: Make, moment: str, added: str | None) -> tuple[CommitId, WorkflowId, WorkflowId]:
    """The commit, the workflow that made it, and the workflow of a step from the same input that meets it."""
    if moment == "before":
        made, maker = make(branch)
        return made, maker, branch.start(branch.step("it", added))
    gate = branch.harness.gate()
    workflow = branch.start(branch.step("it", added, gate=gate))
    body = branch.runs[-1]
    gate.reached()
    made, maker = make(branch)
    branch.runs.append(body)
    gate.open()
    return made, maker, workflow


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize("case", REPLACED)
def test_an_abandoned_head_is_replaced_and_recorded(
    harness: PublicationHarness, branch: TargetBranch, case: str, moment: str, added: str | None
) -> None:
    make, why = REPLACED[case]
    kind = "replace" if added else "move_back"
    counted = harness.removals(kind)
    made, _, workflow = meets(branch, make, moment, added)
    mine = harness.completed(workflow)
    if added:
        branch.shows(mine, files={"it"})
        assert branch.labels()["perago.phase"] == "confirm"
    else:
        assert mine == branch.base
        branch.shows(files=set())
    recorded_once(harness, workflow, made, why.format(base=branch.base), kind)
    assert harness.removals(kind) == counted + 1


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_head_that_may_be_accepted_stays(
    harness: PublicationHarness, branch: TargetBranch, case: str, moment: str, added: str | None
) -> None:
    make, words = REFUSED[case]
    made, maker, workflow = meets(branch, make, moment, added)
    harness.refused(workflow, *(word.format(made=made, workflow=maker) for word in words))
    branch.shows(made, files={"maker" if "maker" in branch.added() else "held"})
    assert len(harness.attempts(workflow, "it")) == ATTEMPTS
    assert len(branch.executors()) == (1 if moment == "meanwhile" else 0), "a body ran although it could only be refused"
    assert not [line for line in harness.worker.said(REMOVED) if line["workflow_id"] == workflow]


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
def test_a_retry_replaces_it_once_its_task_has_failed(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    held = branch.hold()
    made = held.publish()
    workflow = branch.start(branch.step("it", added))
    harness.refused(workflow, f"has published {made}")
    held.fail()
    harness.worker_harness.real.call("POST", f"/workflow/{workflow}/retry")
    mine = harness.completed(workflow)
    branch.shows(*([mine] if added else []), files={"it"} if added else set())
    recorded_once(harness, workflow, made, "its task is FAILED", "replace" if added else "move_back")


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
def test_one_of_an_iteration_that_the_loop_no_longer_keeps_stays(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    """The task is unknown to Conductor although its workflow was not restarted."""
    first_only = {
        "name": "switch",
        "taskReferenceName": "switch",
        "type": "SWITCH",
        "evaluatorType": "value-param",
        "expression": "iteration",
        "inputParameters": {"iteration": "${loop.output.iteration}"},
        "decisionCases": {"1": [branch.step("maker", workspace=INPUT)]},
        "defaultCase": [{"name": "x", "taskReferenceName": "x", "type": "SET_VARIABLE", "inputParameters": {"x": 1}}],
    }
    workflow = branch.start(loop(4, first_only, keepLastN=2), branch.step("it", added, workspace=INPUT))
    harness.refused(workflow, "step maker__1", "Conductor has deleted the task that made it", "so it may have been accepted")
    (made, _) = branch.history()
    assert not [task for task in harness.tasks(workflow) if task["referenceTaskName"] == "maker__1"]
    branch.shows(made, files={"maker"})
    assert branch.executors() == []


# the same task, or the same step, again


@pytest.mark.parametrize("again", ["added again", None], ids=["writing", "no-op"])
@pytest.mark.parametrize("how", ["rerun", "restart"])
def test_the_step_itself_again(harness: PublicationHarness, branch: TargetBranch, how: str, again: str | None) -> None:
    workflow = branch.start(branch.step("it", "first", again))
    made = harness.completed(workflow)
    (task,) = harness.tasks(workflow)
    if how == "rerun":
        harness.worker_harness.real.rerun(workflow, task["taskId"])
        why = "an earlier execution of this task made it"
    else:
        harness.worker_harness.real.call("POST", f"/workflow/{workflow}/restart")
        why = "its workflow was restarted"
    mine = harness.completed(workflow)
    (now,) = harness.tasks(workflow)
    assert (now["taskId"] == task["taskId"]) is (how == "rerun")
    assert len(branch.executors()) == 2
    branch.shows(*([mine] if again else []), files={again} if again else set())
    recorded_once(harness, workflow, made, why, "replace" if again else "move_back")


@pytest.mark.parametrize("again", ["added again", None], ids=["writing", "no-op"])
def test_the_retry_of_an_executor_that_died_after_publishing(
    harness: PublicationHarness, branch: TargetBranch, again: str | None
) -> None:
    made = publish_and_die(harness, branch, "first", again)
    workflow = harness.started[-1]
    mine = harness.completed(workflow)
    assert [task["status"] for task in harness.tasks(workflow)] == ["FAILED", "COMPLETED"]
    branch.shows(*([mine] if again else []), files={again} if again else set())
    recorded_once(harness, workflow, made, "its task is FAILED", "replace" if again else "move_back")
    assert len(harness.worker.executors()) == SLOTS


def publish_and_die(harness: PublicationHarness, branch: TargetBranch, *adds: str | None) -> CommitId:
    """A step whose executor is killed before it learns that its merge was made; the commit of that merge."""
    hold = HeldRequest(after=True)
    harness.lakefs.on(branch.merge_request, hold)
    branch.start(branch.step("it", *adds))
    assert hold.reached.wait(30)
    (made, _) = branch.history()
    (executor,) = branch.executors()
    os.kill(executor, signal.SIGKILL)
    eventually(lambda: executor not in harness.worker.executors() and len(harness.worker.executors()) == SLOTS)
    hold.released.set()
    return made


def recorded_once(harness: PublicationHarness, workflow: WorkflowId, commit: CommitId, why: str, kind: str) -> None:
    """The removal is in the worker's log and in Conductor's task log once, with the removed commit and the reason."""
    last = harness.tasks(workflow)[-1]

    def lines() -> list[dict[str, object]]:
        return [line for line in harness.worker.said(REMOVED) if line["workflow_id"] == workflow]

    (line,) = eventually(lines, what="a line about the removed commit")
    assert (line["level"], line["task_id"]) == ("warning", last["taskId"])
    assert (line["removed_commit"], line["removal"]) == (commit, kind)
    assert why in str(line["why"])
    (shown,) = [text for text in harness.worker_harness.real.logs(last["taskId"]) if commit in text]
    assert why in shown
