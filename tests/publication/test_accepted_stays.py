"""Workflows in which two steps have the same input commit: what Conductor accepted first is never removed."""

import pytest
from tests.support.publication import INPUT, Json, PublicationHarness, TargetBranch, fork, loop, sub_workflow
from tests.support.waiting import eventually

from perago.model import CommitId, WorkflowId

"""What an attempt is told whose staging branch the winner deleted; its retry is told who that was."""
PATIENT = 5
"""Retries of a lane that has to give way: once it fails for good, the workflow ends and the other lane with it."""
ROUNDS = 5


@pytest.mark.parametrize("added", ["again", None], ids=["writing", "no-op"])
def test_the_same_input_again_after_it_was_completed(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    first = branch.start(branch.step("maker"))
    made = harness.completed(first, "maker")
    second = branch.start(branch.step("maker", added))
    harness.refused(second, f"accepted {made} from step maker", first, "Start a new workflow with that commit", step="maker")
    assert branch.executors() == []
    branch.shows(made, files={"maker"})


@pytest.mark.parametrize("added", ["second", None], ids=["writing", "no-op"])
def test_another_workflow_publishes_while_the_first_waits_for_a_person(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    waits = {"name": "person", "taskReferenceName": "person", "type": "HUMAN"}
    first = branch.start(branch.step("one"), waits, branch.step("two", added, workspace="${one.output.workspace}"))
    continued = branch.runs[-1]
    one = harness.until_completed(first, "one")
    other = branch.start(branch.step("other", workspace=branch.workspace(one)))
    two = harness.completed(other, "other")
    harness.finish(first, "person")
    harness.refused(first, f"accepted {two} from step other", other, "Start a new workflow with that commit", step="two")
    assert not continued.exists()
    branch.shows(two, one, files={"one", "other"})


# lanes of a fork


SLOW = {"left is slow": ("right", "left"), "right is slow": ("left", "right")}


@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("writers", ["both", "left", "right", "none"])
def test_a_fork_whose_lanes_take_one_input_one_after_the_other(
    harness: PublicationHarness, branch: TargetBranch, writers: str, slow: str
) -> None:
    fast, late = SLOW[slow]
    gates = {lane: harness.gate() for lane in ("left", "right")}
    lanes = [
        branch.step(lane, lane if writers in {"both", lane} else None, workspace=INPUT, gate=gate) for lane, gate in gates.items()
    ]
    workflow = branch.start(*fork(*lanes))
    for gate in gates.values():
        gate.reached()
    gates[fast].open()
    made = harness.until_completed(workflow, fast)
    gates[late].open()
    if writers in {"both", fast}:
        assert harness.worker_harness.ended(workflow) == "FAILED"
        reasons = refusals(harness, workflow, late)
        assert all(f"accepted {made} from step {fast}" in reason for reason in reasons)
        assert all(f"Run it after {fast} and wire its workspace to ${{{fast}.output.workspace}}" in reason for reason in reasons)
        branch.shows(made, files={fast})
        return
    assert made == branch.base
    last = harness.completed(workflow, late)
    if writers == "none":
        assert last == branch.base
        branch.shows(files=set())
    else:
        branch.shows(last, files={late})


@pytest.mark.parametrize("together", ["fast", "slow"])
@pytest.mark.parametrize("writers", ["both", "left", "right", "none"])
def test_a_fork_whose_lanes_take_one_input_at_the_same_time(
    harness: PublicationHarness, branch: TargetBranch, writers: str, together: str
) -> None:
    """Both lanes at the same time, or both bodies waiting at one gate."""
    gate = harness.gate() if together == "slow" else None
    lanes = [
        branch.step(lane, lane if writers in {"both", lane} else None, workspace=INPUT, gate=gate, retries=PATIENT)
        for lane in ("left", "right")
    ]
    workflow = branch.start(*fork(*lanes))
    if gate is not None:
        gate.reached()
        gate.open()
    ended = harness.worker_harness.ended(workflow)
    done = {lane: accepted(harness, workflow, lane) for lane in ("left", "right")}
    if writers == "none":
        assert (ended, set(done.values())) == ("COMPLETED", {branch.base})
        branch.shows(files=set())
        return
    (winner,) = [lane for lane, made in done.items() if made not in {None, branch.base}]
    made = done.pop(winner)
    assert made is not None
    branch.shows(made, files={winner})
    (loser, other) = done.popitem()
    if other is None:
        assert ended == "FAILED"
        reasons = refusals(harness, workflow, loser)
        assert all(f"step {winner} of workflow" in reason for reason in reasons), reasons
    else:
        assert writers != "both"
        assert ended == "COMPLETED"


def refusals(harness: PublicationHarness, workflow: WorkflowId, lane: str) -> list[str]:
    """The reasons of the lane's attempts.

    A JOIN that looks at a lane between its failure and its retry fails the workflow, which cancels the retry.
    """
    attempts = harness.attempts(workflow, lane)
    assert attempts[0]["status"] == "FAILED"
    assert "COMPLETED" not in {task["status"] for task in attempts}
    return [task["reasonForIncompletion"] for task in attempts if task["status"] == "FAILED"]


def accepted(harness: PublicationHarness, workflow: WorkflowId, step: str) -> CommitId | None:
    done = [task for task in harness.attempts(workflow, step) if task["status"] == "COMPLETED"]
    return CommitId(done[0]["outputData"]["workspace"]["ref"]) if done else None


# loops, sequences and sub-workflows


@pytest.mark.parametrize("added", ["again", None], ids=["writing", "no-op"])
def test_a_loop_whose_step_takes_the_workflows_input(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    workflow = branch.start(loop(3, branch.step("step", "first", added, workspace=INPUT)))
    reason = harness.refused(workflow, "from step step__1", step="step__2")
    assert "A step in a loop has to take the workspace that the iteration before it left" in reason
    made = harness.accepted(workflow, "step__1")
    assert not harness.attempts(workflow, "step__3")
    assert len(branch.executors()) == 1
    branch.shows(made, files={"first"})


@pytest.mark.parametrize("added", ["two", None], ids=["writing", "no-op"])
def test_two_steps_that_take_the_workflows_input(harness: PublicationHarness, branch: TargetBranch, added: str | None) -> None:
    workflow = branch.start(branch.step("one", workspace=INPUT), branch.step("two", added, workspace=INPUT))
    harness.refused(workflow, "from step one", "wire its workspace to ${one.output.workspace}", step="two")
    branch.shows(harness.accepted(workflow, "one"), files={"one"})
    assert branch.executors() == []


@pytest.mark.parametrize("added", ["two", None], ids=["writing", "no-op"])
def test_two_sub_workflows_that_take_the_workflows_input(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    subs = [
        sub_workflow("first", [branch.step("one", workspace=INPUT)]),
        sub_workflow("second", [branch.step("two", added, workspace=INPUT)]),
    ]
    workflow = branch.start(*subs)
    assert harness.worker_harness.ended(workflow) == "FAILED"
    (first,) = sub_workflows(harness, workflow, "first")
    (second, *_) = sub_workflows(harness, workflow, "second")
    made = harness.accepted(first, "one")
    harness.refused(second, f"accepted {made} from step one", first, step="two")
    branch.shows(made, files={"one"})
    assert branch.executors() == []


def sub_workflows(harness: PublicationHarness, workflow: WorkflowId, step: str) -> list[WorkflowId]:
    return [WorkflowId(task["subWorkflowId"]) for task in harness.attempts(workflow, step)]


def test_two_workflows_from_one_input_at_the_same_time(harness: PublicationHarness) -> None:
    for _ in range(ROUNDS):
        branch, gate = harness.branch(), harness.gate()
        both = {name: branch.start(branch.step(name, gate=gate)) for name in ("one", "other")}
        eventually(lambda branch=branch: all(ran.exists() for ran in branch.runs), what="both bodies")
        gate.open()
        ended = {name: harness.worker_harness.ended(workflow) for name, workflow in both.items()}
        assert sorted(ended.values()) == ["COMPLETED", "FAILED"]
        (winner,) = [name for name, status in ended.items() if status == "COMPLETED"]
        (loser,) = [name for name, status in ended.items() if status == "FAILED"]
        made = harness.accepted(both[winner], winner)
        branch.shows(made, files={winner})
        harness.refused(both[loser], f"step {winner} of workflow", both[winner], step=loser)


# wired rightly


def carried(branch: TargetBranch) -> list[Json]:
    """The loop's step takes the workspace from a variable, and puts its own there."""
    into = {"name": "SET_VARIABLE", "type": "SET_VARIABLE"}
    return [
        into | {"taskReferenceName": "begin", "inputParameters": {"workspace": INPUT}},
        loop(
            3,
            branch.step("step", "first", None, "third", workspace="${workflow.variables.workspace}"),
            into | {"taskReferenceName": "carry", "inputParameters": {"workspace": "${step.output.workspace}"}},
        ),
    ]


def test_a_loop_that_carries_the_workspace(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(*carried(branch))
    assert harness.worker_harness.ended(workflow) == "COMPLETED"
    one, two, three = (harness.accepted(workflow, f"step__{number}") for number in (1, 2, 3))
    assert one == two
    branch.shows(three, one, files={"first", "third"})


def test_sub_workflows_one_after_the_other(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(
        sub_workflow("first", [branch.step("one", workspace=INPUT)]),
        sub_workflow("second", [branch.step("two", workspace=INPUT)], "${first.output.workspace}"),
        branch.step("three", workspace="${second.output.workspace}"),
    )
    three = harness.completed(workflow, "three")
    one, two = (
        harness.accepted(sub_workflows(harness, workflow, step)[0], inner)
        for step, inner in (("first", "one"), ("second", "two"))
    )
    branch.shows(three, two, one, files={"one", "two", "three"})


def test_a_new_workflow_from_the_commit_that_the_refusal_names(harness: PublicationHarness, branch: TargetBranch) -> None:
    made = harness.completed(branch.start(branch.step("maker")), "maker")
    reason = harness.refused(branch.start(branch.step("it")))
    named = CommitId(next(word for word in reason.split() if word == made))
    branch.shows(
        harness.completed(branch.start(branch.step("it", workspace=branch.workspace(named)))), made, files={"maker", "it"}
    )
