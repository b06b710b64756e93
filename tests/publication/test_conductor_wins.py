"""A task that Conductor completed with a commit that the branch does not show: the accepted commit is put back."""

import uuid

import pytest
from tests.support import alerts
from tests.support.fault_proxy import Exchange, HeldRequest
from tests.support.kill_matrix import TASK_UPDATE
from tests.support.publication import REMOVED, HeldTask, PublicationHarness, TargetBranch
from tests.support.waiting import eventually

from perago.model import BranchName, CommitId


def test_a_late_report_that_a_rerun_has_overtaken(harness: PublicationHarness, branch: TargetBranch) -> None:
    """The first execution's report arrives when the rerun has published but not yet reported."""
    late, later, gate = HeldRequest(), HeldRequest(), harness.gate()

    def hold_the_next_report(exchange: Exchange) -> None:
        harness.conductor.on(TASK_UPDATE, later)
        exchange.client.send(exchange.forward().raw)

    workflow = branch.start(branch.step("it", "first", "second", gate=gate))
    gate.reached()
    harness.conductor.on(TASK_UPDATE, late)
    harness.lakefs.on(rf"PUT /api/v1/repositories/[^/]+/branches/{branch.name}/hard_reset", hold_the_next_report)
    gate.open()
    assert late.reached.wait(30)
    (accepted, _) = branch.history()
    (task,) = harness.tasks(workflow)
    harness.worker_harness.real.terminate(workflow)
    harness.worker_harness.real.rerun(workflow, task["taskId"])
    assert later.reached.wait(30)
    (displacing, _) = branch.history()
    assert displacing != accepted
    counted = harness.removals("restore")
    with alerts.fires("late reports after a rerun", harness.worker), alerts.fires("results are not accepted", harness.worker):
        late.released.set()
        eventually(lambda: harness.tasks(workflow)[0]["status"] == "COMPLETED", what="the late report")
        later.released.set()
        assert harness.completed(workflow) == accepted
        eventually(lambda: branch.history()[0] == accepted, what="the accepted commit on the branch")
    branch.shows(accepted, files={"first"})
    lines = eventually(lambda: [line for line in harness.worker.said(REMOVED) if line["removal"] == "restore"])
    assert [(line["level"], line["removed_commit"], line["head"]) for line in lines] == [("warning", displacing, accepted)]
    assert harness.removals("restore") == counted + 1


def complete_with_another(held: HeldTask) -> CommitId:
    """A commit on the same input, which the branch does not show: the output that Conductor accepts."""
    site, name = held.branch.harness.worker_harness.site, BranchName(f"other-{uuid.uuid4().hex[:8]}")
    site.lake.create_branch(site.repository, name, held.branch.base)
    accepted = site.publish(name, {"data/accepted": b""})
    held.complete(accepted)
    site.lake.delete_branch(site.repository, name)
    return accepted


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
def test_the_next_step_starts_from_the_accepted_commit(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    held = branch.hold()
    displacing = held.publish()
    accepted = complete_with_another(held)
    workflow = branch.start(branch.step("it", added, workspace=branch.workspace(accepted)))
    mine = harness.completed(workflow)
    if added:
        branch.shows(mine, accepted, files={"accepted", "it"})
    else:
        assert mine == accepted
        branch.shows(accepted, files={"accepted"})
    lines = eventually(lambda: [line for line in harness.worker.said(REMOVED) if line["workflow_id"] == workflow])
    assert [line["removed_commit"] for line in lines] == [displacing]


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
def test_a_step_from_the_commit_before_leaves_the_decision_to_a_person(
    harness: PublicationHarness, branch: TargetBranch, added: str | None
) -> None:
    held = branch.hold()
    displacing = held.publish()
    accepted = complete_with_another(held)
    workflow = branch.start(branch.step("it", added))
    harness.refused(workflow, f"shows {displacing}", f"Conductor accepted {accepted} from step held", "`perago recover`")
    branch.shows(displacing, files={"held"})
    assert branch.executors() == []
