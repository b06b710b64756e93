"""Attempts that are refused before the body runs, and staging branches of workers of the first edition."""

import uuid

import pytest
from tests.support.publication import ATTEMPTS, EDIT, VIEW, HeldTask, PublicationHarness, TargetBranch

from perago.model import BranchName

KINDS = pytest.mark.parametrize("kind", ["writing", "no-op", "reading"])


def names(branch: TargetBranch, what: str) -> str:
    """The value that is given as the branch."""
    match what:
        case "tag":
            name = f"tag-{uuid.uuid4().hex[:8]}"
            branch.harness.worker_harness.site.tag(name, branch.base)
            return name
        case "commit":
            return branch.base
        case _:
            return f"no-such-{uuid.uuid4().hex[:8]}"


WORDS = {
    "tag": ("FAILED_WITH_TERMINAL_ERROR", 1, "is a tag or a commit ({base}), not a branch; name the branch to publish to"),
    "commit": ("FAILED_WITH_TERMINAL_ERROR", 1, "is a tag or a commit ({base}), not a branch; name the branch to publish to"),
    "missing": ("FAILED", ATTEMPTS, "does not exist in repository"),
}


@KINDS
@pytest.mark.parametrize("what", WORDS)
def test_a_branch_that_is_none(harness: PublicationHarness, branch: TargetBranch, what: str, kind: str) -> None:
    status, attempts, words = WORDS[what]
    name = names(branch, what)
    added, module = "it" if kind == "writing" else None, VIEW if kind == "reading" else EDIT
    workflow = branch.start(branch.step("it", added, workspace=branch.workspace(branch=name), module=module))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    tasks = harness.tasks(workflow)
    assert [task["status"] for task in tasks] == [status] * attempts
    for task in tasks:
        assert f"branch {name} " in task["reasonForIncompletion"]
        assert words.format(base=branch.base) in task["reasonForIncompletion"]
    assert branch.executors() == []
    branch.shows(files=set())


@pytest.mark.parametrize("added", ["it", None], ids=["writing", "no-op"])
def test_an_input_that_is_two_commits_behind(harness: PublicationHarness, branch: TargetBranch, added: str | None) -> None:
    workflow = branch.start(branch.step("one"), branch.step("two", workspace="${one.output.workspace}"))
    two = harness.completed(workflow, "two")
    late = branch.start(branch.step("it", added))
    harness.refused(late, f"the target branch is at {two}", f"neither the input commit {branch.base} nor directly after it")
    assert len(harness.attempts(late, "it")) == ATTEMPTS
    assert branch.executors() == []
    branch.shows(two, harness.accepted(workflow, "one"), files={"one", "two"})


# staging branches with names of the first edition


def first_edition_name(held: HeldTask) -> BranchName:
    """The name with the digest of the target at the end, as in the first edition."""
    workflow, task = (text.replace("-", "_") for text in (held.workflow, held.task_id))
    execution = f"{0x65000000:08x}{uuid.uuid4().hex[:16]}"
    return BranchName(
        f"perago-staging-{workflow}-held-seq-1-iteration-0-task-id-{task}-retry-0-exec-{execution}_{held.branch.digest}"
    )


def test_a_publication_revokes_old_staging_branches_of_its_target_and_no_others(
    harness: PublicationHarness, branch: TargetBranch
) -> None:
    elsewhere = harness.branch()
    old = [first_edition_name(target.hold()) for target in (branch, elsewhere)]
    for name in old:
        harness.worker_harness.site.lake.create_branch(harness.worker_harness.site.repository, name, branch.base)
    for workflow in harness.started[-2:]:
        harness.worker_harness.real.terminate(workflow)
    counted = harness.metric("perago_revocations_total")
    branch.shows(harness.completed(branch.start(branch.step("it"))), files={"it"})
    assert harness.worker_harness.staging_branches() == [old[1]]
    assert harness.metric("perago_revocations_total") == counted + 1
    harness.worker_harness.collect_garbage()
    assert harness.worker_harness.staging_branches() == []


def test_perago_gc_collects_old_staging_branches_whose_attempt_is_over(harness: PublicationHarness, branch: TargetBranch) -> None:
    running, over = branch.hold(), branch.hold()
    kept, gone = first_edition_name(running), first_edition_name(over)
    for name in (kept, gone):
        harness.worker_harness.site.lake.create_branch(harness.worker_harness.site.repository, name, branch.base)
    over.fail()
    harness.worker_harness.collect_garbage("--older-than", "100000d")
    assert harness.worker_harness.staging_branches() == [kept]
    running.fail()
    harness.worker_harness.collect_garbage("--older-than", "100000d")
    branch.shows(files=set())
