"""Commits that a person makes on the target branch: replaced with a warning, or kept, as PERAGO_UNLABELLED_HEAD says."""

from collections.abc import Callable

import pytest
from tests.support import alerts
from tests.support.fault_proxy import HeldRequest
from tests.support.publication import ATTEMPTS, REASON_LIMIT, REMOVED, Json, PublicationHarness, TargetBranch
from tests.support.waiting import eventually

from perago.model import CommitId, WorkflowId

MESSAGE = "a quick fix"
ADDED = pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
MOMENT = pytest.mark.parametrize("moment", ["before", "meanwhile"])


def meets(branch: TargetBranch, moment: str, added: str | None) -> tuple[CommitId, WorkflowId]:
    """A workflow whose step finds a commit by hand on its input, made before the step starts or while its body runs."""
    if moment == "before":
        made = branch.person_commits("fix", MESSAGE)
        return made, branch.start(branch.step("it", added))
    gate = branch.harness.gate()
    workflow = branch.start(branch.step("it", added, gate=gate))
    gate.reached()
    made = branch.person_commits("fix", MESSAGE)
    gate.open()
    return made, workflow


def removed(harness: PublicationHarness, workflow: WorkflowId, count: int) -> list[Json]:
    def lines() -> list[Json]:
        return [line for line in harness.worker.said(REMOVED) if line["workflow_id"] == workflow]

    return eventually(lambda: lines() if len(lines()) == count else [], what="the lines about removed commits")


@ADDED
@MOMENT
def test_it_is_replaced_with_a_warning_that_names_it(
    harness: PublicationHarness, branch: TargetBranch, moment: str, added: str | None
) -> None:
    kind = "replace" if added else "move_back"
    counted = harness.removals(kind)
    made, workflow = meets(branch, moment, added)
    mine = harness.completed(workflow)
    branch.shows(*([mine] if added else []), files={"it"} if added else set())
    (line,) = removed(harness, workflow, 1)
    author = harness.worker_harness.site.lake.commit(harness.worker_harness.site.repository, made).committer
    assert author
    assert (line["level"], line["removal"], line["removed_commit"], line["head"]) == ("warning", kind, made, mine)
    assert f"'{MESSAGE}' by {author}" in line["why"]
    (shown,) = [text for text in harness.worker_harness.real.logs(harness.tasks(workflow)[-1]["taskId"]) if made in text]
    assert f"'{MESSAGE}' by {author}" in shown
    assert harness.removals(kind) == counted + 1


@ADDED
@MOMENT
def test_it_is_kept_where_the_setting_says_so(refusing: PublicationHarness, moment: str, added: str | None) -> None:
    branch = refusing.branch()
    made, workflow = meets(branch, moment, added)
    refusing.refused(workflow, made, f"'{MESSAGE}'", "PERAGO_UNLABELLED_HEAD=refuse keeps it", "start a new workflow from it")
    assert len(refusing.attempts(workflow, "it")) == ATTEMPTS
    assert len(branch.executors()) == (0 if moment == "before" else 1)
    branch.shows(made, files={"fix"})
    assert not [line for line in refusing.worker.said(REMOVED) if line["workflow_id"] == workflow]


def test_a_refusal_stays_readable_beside_a_long_message(refusing: PublicationHarness) -> None:
    branch = refusing.branch()
    branch.person_commits("fix", "a very long story " * 50)
    workflow = branch.start(branch.step("it"))
    reason = refusing.refused(workflow, "a very long story", "PERAGO_UNLABELLED_HEAD=refuse", "start a new workflow from it")
    assert len(reason) <= REASON_LIMIT


# between reading the head and merging


BY_HAND: dict[str, Callable[[TargetBranch], CommitId]] = {
    "commit": lambda branch: branch.person_commits("fix", MESSAGE),
    "merge": lambda branch: branch.person_merges("fix", MESSAGE),
}


def slip_in(branch: TargetBranch, how: str) -> tuple[CommitId, WorkflowId]:
    """Insert a commit by hand after the step has read the head and before its merge is applied."""
    hold = HeldRequest()
    branch.harness.lakefs.on(branch.merge_request, hold)
    workflow = branch.start(branch.step("it"))
    assert hold.reached.wait(30)
    made = BY_HAND[how](branch)
    hold.released.set()
    return made, workflow


@pytest.mark.parametrize("how", BY_HAND)
def test_one_that_gets_in_before_the_merge_is_kept(refusing: PublicationHarness, how: str) -> None:
    branch = refusing.branch()
    counted = refusing.removals("undo")
    made, workflow = slip_in(branch, how)
    refusing.refused(workflow, made, "PERAGO_UNLABELLED_HEAD=refuse keeps it")
    first, _ = refusing.attempts(workflow, "it")
    assert f"{made} reached branch {branch.name} while this attempt published" in first["reasonForIncompletion"]
    branch.shows(made, files={"fix"})
    (line,) = removed(refusing, workflow, 1)
    assert (line["level"], line["removal"], line["head"], line["task_id"]) == ("warning", "undo", made, first["taskId"])
    assert line["removed_commit"] != made
    assert refusing.removals("undo") == counted + 1


@pytest.mark.parametrize("how", BY_HAND)
def test_one_that_gets_in_before_the_merge_is_replaced_by_the_retry(
    harness: PublicationHarness, branch: TargetBranch, how: str
) -> None:
    with alerts.fires("a writer outside of Perago", harness.worker):
        made, workflow = slip_in(branch, how)
        mine = harness.completed(workflow)
    first, second = harness.attempts(workflow, "it")
    assert (first["status"], second["status"]) == ("FAILED", "COMPLETED")
    assert f"{made} reached branch {branch.name} while this attempt published" in first["reasonForIncompletion"]
    branch.shows(mine, files={"it"})
    undone, replaced = removed(harness, workflow, 2)
    assert (undone["removal"], undone["head"]) == ("undo", made)
    assert (replaced["removal"], replaced["removed_commit"], replaced["head"]) == ("replace", made, mine)
    assert MESSAGE in replaced["why"]
