"""`perago protect` on real servers: what the hooks refuse and allow, and their installation and removal."""

import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from tests.support import worker_harness
from tests.support.operator import MAIN, OperatorHarness
from tests.support.waiting import eventually

from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeError, LakeRejected
from perago.lake.client import LakeFS
from perago.model import BranchName, CommitId
from perago.operate import protection
from perago.protocol import commit_labels
from perago.protocol.staging_names import StagingName

ROUNDS, RACERS = 12, 8
FILE = "_lakefs_actions/perago_protect_main.yaml"


def protect(harness: OperatorHarness, *options: str) -> None:
    said = harness.perago("protect", harness.repository, "main", *options)
    assert said.code == 0, said.err


def branch(harness: OperatorHarness, name: str, source: CommitId) -> BranchName:
    made = BranchName(name)
    harness.server.lake.create_branch(harness.repository, made, source)
    harness.by_hand(f"by/{name}", name.encode(), made)
    return made


def merge(harness: OperatorHarness, source: BranchName, expected: CommitId | None) -> None:
    metadata = {} if expected is None else {commit_labels.EXPECTED_HEAD: expected}
    harness.server.lake.merge(harness.repository, source, MAIN, message="by hand", metadata=metadata, timeout=30)


def commits_directly(harness: OperatorHarness) -> bool:
    """lakeFS keeps the action files of a branch in a cache for some seconds."""
    harness.write(f"direct-{secrets.token_hex(4)}")
    try:
        harness.server.lake.commit_branch(harness.repository, MAIN, "direct", {})
    except LakeRejected as error:
        if "under perago protect takes merges only" not in str(error):
            raise
        reset(harness)
        return False
    return True


def reset(harness: OperatorHarness) -> None:
    harness.server.request("PUT", f"/repositories/{harness.repository}/branches/main", {"type": "reset"})


def winners(harness: OperatorHarness, number: int) -> int:
    """The number of merges that succeed in a race of several from one head."""
    head = harness.head().id
    sources = [branch(harness, f"racer-{number}-{racer}", head) for racer in range(RACERS)]
    gate, count = threading.Barrier(RACERS), Counter[str]()

    def race(source: BranchName) -> None:
        gate.wait()
        try:
            merge(harness, source, head)
        except LakeError:
            count["refused"] += 1
        else:
            count["merged"] += 1

    threads = [threading.Thread(target=race, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.total() == RACERS
    return count["merged"]


def test_of_racing_merges_exactly_one_succeeds(harness: OperatorHarness) -> None:
    protect(harness)
    assert [winners(harness, number) for number in range(ROUNDS)] == [1] * ROUNDS


def test_without_the_hooks_many_succeed(harness: OperatorHarness) -> None:
    assert sum(winners(harness, number) for number in range(2)) > 2


def test_it_is_shown_installed_once_and_removed(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    said = harness.perago("protect", harness.repository, "main")
    assert said.code == 0
    assert said.out.startswith(f"add {FILE} on branch main\n")
    assert said.out.splitlines()[-1] == f"branch main is at {harness.head().id}"
    assert "workflows that started before that commit are refused" in said.err
    assert harness.head().parents == (seed,)
    assert commit_labels.read(harness.head().metadata) is None
    installed = harness.head().id
    again = harness.perago("protect", harness.repository, "main")
    assert (again.code, again.out) == (0, f"nothing to do: {FILE} is installed on branch main\n")
    assert harness.head().id == installed
    removed = harness.perago("protect", harness.repository, "main", "--remove")
    assert removed.out.startswith(f"remove {FILE} on branch main\n")
    assert (
        harness.perago("protect", harness.repository, "main", "--remove").out
        == f"nothing to do: {FILE} is absent on branch main\n"
    )
    assert harness.staging_branches() == []
    eventually(lambda: commits_directly(harness), what="direct commits")


def test_an_older_version_of_the_file_is_updated(harness: OperatorHarness) -> None:
    with mock.patch.object(protection, "action_file", lambda name: action_file(name).replace("takes merges only", "is closed")):
        protect(harness)
    said = harness.perago("protect", harness.repository, "main")
    assert said.out.startswith(f"update {FILE} on branch main\n")
    assert harness.perago("protect", harness.repository, "main").out.startswith("nothing to do")


action_file = protection.action_file


def test_what_the_hooks_refuse(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    before = branch(harness, "before", seed)
    protect(harness)
    eventually(lambda: not commits_directly(harness), what="the refusal of direct commits")
    head = harness.head().id
    source = branch(harness, "source", head)
    with pytest.raises(LakeRejected, match=f"the head is {head[:16]}, perago.expected_head is nil"):
        merge(harness, source, None)
    with pytest.raises(LakeRejected, match=f"perago.expected_head is {seed[:16]}"):
        merge(harness, source, seed)
    harness.server.lake.delete_objects(harness.repository, MAIN, [protection.path_of(MAIN)])
    with pytest.raises(LakeRejected, match="under perago protect takes merges only"):
        harness.server.lake.commit_branch(harness.repository, MAIN, "take the file away", {})
    reset(harness)
    for action, body in (("cherry-pick", {"ref": source}), ("revert", {"ref": "main", "parent_number": 1})):
        with pytest.raises(Exception, match="412"):
            harness.server.request("POST", f"/repositories/{harness.repository}/branches/main/{action}", body)
    assert harness.head().id == head
    merge(harness, source, head)
    # lakeFS reads the file from the source of a merge: one that was made before is not covered.
    merge(harness, before, None)


def test_attempts_publish_on_a_protected_branch(harness: OperatorHarness) -> None:
    harness.by_hand("in/x")
    protect(harness)
    accepted = harness.accepted(harness.head().id)
    abandoned = harness.abandoned(accepted.commit)
    replaced = harness.accepted(accepted.commit)
    assert harness.head().id == replaced.commit
    assert harness.head().parents == (accepted.commit,)
    assert abandoned.commit != replaced.commit
    assert protection.state(harness.server.lake, harness.repository, MAIN, MAIN) is protection.State.INSTALLED
    assert not harness.actions()


def test_a_worker_publishes_on_a_protected_branch(harness: OperatorHarness, tmp_path: Path) -> None:
    """A merge, and the replacement of an abandoned commit."""
    harness.by_hand("data/log.txt", b"")
    protect(harness)
    with worker_harness.open_harness(harness.stack, tmp_path / "worker") as made:
        made.start(worker_harness.GROW)
        for line in ("merged", "replacing"):
            head = harness.head().id
            if line == "replacing":
                merge(harness, branch(harness, "abandoned", head), head)
            workspace = {"repository": harness.repository, "branch": "main", "ref_type": "commit", "ref": head}
            workflow = made.real.start_workflow([made.step(worker_harness.GROW, "it", {"line": line}, workspace)])
            assert made.ended(workflow) == "COMPLETED"
            assert harness.head().parents == (head,)
            assert harness.head().metadata["perago.workflow"] == workflow


def test_recovery_says_that_the_hooks_are_gone(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    protect(harness)
    said = harness.perago("recover", harness.target, "--yes", "--to", seed)
    assert said.code == 0
    assert f"run perago protect {harness.repository} main" in said.err


def test_a_running_attempt_is_named_and_the_branch_left_alone(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    live = harness.start(seed)
    staging = harness.staged(live)
    said = harness.perago("protect", harness.repository, "main")
    assert said.code == 1
    assert f"{live.attempt.workflow_id} is about to publish to it" in said.err
    assert harness.head().id == seed
    assert harness.staging_branches() == [staging]


def test_uncommitted_changes_leave_the_branch_alone(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    harness.write("dirt")
    said = harness.perago("protect", harness.repository, "main")
    assert said.code == 1
    assert "uncommitted changes" in said.err
    assert harness.head().id == seed


def test_the_installation_itself_is_fenced(harness: OperatorHarness) -> None:
    """The action file is in the source of its own merge."""
    harness.by_hand("in/x")
    merged = LakeFS.merge

    def late(lake: LakeFS, *arguments: object, **named: object) -> CommitId:
        harness.by_hand("meanwhile")
        return merged(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]

    with mock.patch.object(LakeFS, "merge", late):
        said = harness.perago("protect", harness.repository, "main")
    assert said.code == 1
    assert "the head is" in said.err
    assert protection.state(harness.server.lake, harness.repository, MAIN, MAIN) is protection.State.ABSENT


def test_bad_input(harness: OperatorHarness) -> None:
    for arguments, code in (([harness.repository], 2), ([harness.repository, "a b"], 2), ([harness.repository, "none"], 1)):
        said = harness.perago("protect", *arguments)
        assert said.code == code
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1


def test_staging_branches_of_attempts_that_are_over_are_revoked(harness: OperatorHarness) -> None:
    over = harness.start(harness.by_hand("in/x"))
    harness.staged(over)
    harness.terminate(over.attempt.workflow_id)
    protect(harness)
    assert harness.staging_branches() == []


def test_a_removal_leaves_a_branch_alone_that_moves_meanwhile(harness: OperatorHarness) -> None:
    """The source of its merge has no hooks, so the command itself looks: directly before, and at the result."""
    harness.by_hand("in/x")
    protect(harness)
    listed = TargetBranch.list_rivals

    def late(target: TargetBranch, but: Sequence[BranchName]) -> list[StagingName]:
        head = harness.head().id
        merge(harness, branch(harness, "meanwhile", head), head)
        return listed(target, but)

    with mock.patch.object(TargetBranch, "list_rivals", late):
        said = harness.perago("protect", harness.repository, "main", "--remove")
    assert said.code == 1
    assert "branch main moved while" in said.err
    assert harness.head().message == "by hand"
    assert protection.state(harness.server.lake, harness.repository, MAIN, MAIN) is protection.State.INSTALLED


def test_a_removal_that_met_another_commit_says_so(harness: OperatorHarness) -> None:
    harness.by_hand("in/x")
    protect(harness)
    merged = LakeFS.merge

    def late(lake: LakeFS, *arguments: object, **named: object) -> CommitId:
        with mock.patch.object(LakeFS, "merge", merged):
            head = harness.head().id
            merge(harness, branch(harness, "meanwhile", head), head)
        return merged(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]

    with mock.patch.object(LakeFS, "merge", late):
        said = harness.perago("protect", harness.repository, "main", "--remove")
    assert said.code == 1
    assert f"run perago doctor {harness.target}" in said.err
