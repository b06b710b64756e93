"""`perago protect` on real servers: what the hooks refuse, what they let pass, and that they come and go."""

import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from tests.support import worker
from tests.support.operator import MAIN, World
from tests.support.worker import eventually

from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeError, LakeRejected
from perago.lake.client import LakeFS
from perago.model import BranchName, CommitId
from perago.operate import protection
from perago.protocol import commit_labels
from perago.protocol.staging_names import StagingName

ROUNDS, RACERS = 12, 8
FILE = "_lakefs_actions/perago_protect_main.yaml"


def protect(world: World, *options: str) -> None:
    said = world.perago("protect", world.repository, "main", *options)
    assert said.code == 0, said.err


def branch(world: World, name: str, source: CommitId) -> BranchName:
    made = BranchName(name)
    world.server.lake.create_branch(world.repository, made, source)
    world.by_hand(f"by/{name}", name.encode(), made)
    return made


def merge(world: World, source: BranchName, expected: CommitId | None) -> None:
    metadata = {} if expected is None else {commit_labels.EXPECTED_HEAD: expected}
    world.server.lake.merge(world.repository, source, MAIN, message="by hand", metadata=metadata, timeout=30)


def commits_directly(world: World) -> bool:
    """lakeFS keeps the action files of a branch in a cache for some seconds."""
    world.write(f"direct-{secrets.token_hex(4)}")
    try:
        world.server.lake.commit_branch(world.repository, MAIN, "direct", {})
    except LakeRejected as error:
        if "under perago protect takes merges only" not in str(error):
            raise
        reset(world)
        return False
    return True


def reset(world: World) -> None:
    world.server.request("PUT", f"/repositories/{world.repository}/branches/main", {"type": "reset"})


def winners(world: World, number: int) -> int:
    """So many of the merges that race from one head succeed."""
    head = world.head().id
    sources = [branch(world, f"racer-{number}-{racer}", head) for racer in range(RACERS)]
    gate, count = threading.Barrier(RACERS), Counter[str]()

    def race(source: BranchName) -> None:
        gate.wait()
        try:
            merge(world, source, head)
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


def test_of_racing_merges_exactly_one_succeeds(world: World) -> None:
    protect(world)
    assert [winners(world, number) for number in range(ROUNDS)] == [1] * ROUNDS


def test_without_the_hooks_many_succeed(world: World) -> None:
    assert sum(winners(world, number) for number in range(2)) > 2


def test_it_is_shown_installed_once_and_removed(world: World) -> None:
    seed = world.by_hand("in/x")
    said = world.perago("protect", world.repository, "main")
    assert said.code == 0
    assert said.out.startswith(f"add {FILE} on branch main\n")
    assert said.out.splitlines()[-1] == f"branch main is at {world.head().id}"
    assert "workflows that started before that commit are refused" in said.err
    assert world.head().parents == (seed,)
    assert commit_labels.read(world.head().metadata) is None
    installed = world.head().id
    again = world.perago("protect", world.repository, "main")
    assert (again.code, again.out) == (0, f"nothing to do: {FILE} is installed on branch main\n")
    assert world.head().id == installed
    removed = world.perago("protect", world.repository, "main", "--remove")
    assert removed.out.startswith(f"remove {FILE} on branch main\n")
    assert (
        world.perago("protect", world.repository, "main", "--remove").out == f"nothing to do: {FILE} is absent on branch main\n"
    )
    assert world.staging_branches() == []
    eventually(lambda: commits_directly(world), what="direct commits")


def test_an_older_version_of_the_file_is_updated(world: World) -> None:
    with mock.patch.object(protection, "action_file", lambda name: action_file(name).replace("takes merges only", "is closed")):
        protect(world)
    said = world.perago("protect", world.repository, "main")
    assert said.out.startswith(f"update {FILE} on branch main\n")
    assert world.perago("protect", world.repository, "main").out.startswith("nothing to do")


action_file = protection.action_file


def test_what_the_hooks_refuse(world: World) -> None:
    seed = world.by_hand("in/x")
    before = branch(world, "before", seed)
    protect(world)
    eventually(lambda: not commits_directly(world), what="the refusal of direct commits")
    head = world.head().id
    source = branch(world, "source", head)
    with pytest.raises(LakeRejected, match=f"the head is {head[:16]}, perago.expected_head is nil"):
        merge(world, source, None)
    with pytest.raises(LakeRejected, match=f"perago.expected_head is {seed[:16]}"):
        merge(world, source, seed)
    world.server.lake.delete_objects(world.repository, MAIN, [protection.path_of(MAIN)])
    with pytest.raises(LakeRejected, match="under perago protect takes merges only"):
        world.server.lake.commit_branch(world.repository, MAIN, "take the file away", {})
    reset(world)
    for action, body in (("cherry-pick", {"ref": source}), ("revert", {"ref": "main", "parent_number": 1})):
        with pytest.raises(Exception, match="412"):
            world.server.request("POST", f"/repositories/{world.repository}/branches/main/{action}", body)
    assert world.head().id == head
    merge(world, source, head)
    # lakeFS reads the file from the source of a merge: one that was made before is not covered.
    merge(world, before, None)


def test_attempts_publish_on_a_protected_branch(world: World) -> None:
    world.by_hand("in/x")
    protect(world)
    accepted = world.accepted(world.head().id)
    abandoned = world.abandoned(accepted.commit)
    replaced = world.accepted(accepted.commit)
    assert world.head().id == replaced.commit
    assert world.head().parents == (accepted.commit,)
    assert abandoned.commit != replaced.commit
    assert protection.state(world.server.lake, world.repository, MAIN, MAIN) is protection.State.INSTALLED
    assert not world.actions()


def test_a_worker_publishes_on_a_protected_branch(world: World, tmp_path: Path) -> None:
    """A merge, and the replacement of a commit that has to go."""
    world.by_hand("data/log.txt", b"")
    protect(world)
    with worker.rig(world.stack, tmp_path / "worker") as made:
        made.start(worker.GROW)
        for line in ("merged", "replacing"):
            head = world.head().id
            if line == "replacing":
                merge(world, branch(world, "abandoned", head), head)
            workspace = {"repository": world.repository, "branch": "main", "ref_type": "commit", "ref": head}
            workflow = made.real.start_workflow([made.step(worker.GROW, "it", {"line": line}, workspace)])
            assert made.ended(workflow) == "COMPLETED"
            assert world.head().parents == (head,)
            assert world.head().metadata["perago.workflow"] == workflow


def test_recovery_says_that_the_hooks_are_gone(world: World) -> None:
    seed = world.by_hand("in/x")
    protect(world)
    said = world.perago("recover", world.target, "--yes", "--to", seed)
    assert said.code == 0
    assert f"run perago protect {world.repository} main" in said.err


def test_a_running_attempt_is_named_and_the_branch_left_alone(world: World) -> None:
    seed = world.by_hand("in/x")
    live = world.start(seed)
    staging = world.staged(live)
    said = world.perago("protect", world.repository, "main")
    assert said.code == 1
    assert f"{live.attempt.workflow_id} is about to publish to it" in said.err
    assert world.head().id == seed
    assert world.staging_branches() == [staging]


def test_uncommitted_changes_leave_the_branch_alone(world: World) -> None:
    seed = world.by_hand("in/x")
    world.write("dirt")
    said = world.perago("protect", world.repository, "main")
    assert said.code == 1
    assert "uncommitted changes" in said.err
    assert world.head().id == seed


def test_the_installation_itself_is_fenced(world: World) -> None:
    """The action file is in the source of its own merge."""
    world.by_hand("in/x")
    merged = LakeFS.merge

    def late(lake: LakeFS, *arguments: object, **named: object) -> CommitId:
        world.by_hand("meanwhile")
        return merged(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]

    with mock.patch.object(LakeFS, "merge", late):
        said = world.perago("protect", world.repository, "main")
    assert said.code == 1
    assert "the head is" in said.err
    assert protection.state(world.server.lake, world.repository, MAIN, MAIN) is protection.State.ABSENT


def test_bad_input(world: World) -> None:
    for arguments, code in (([world.repository], 2), ([world.repository, "a b"], 2), ([world.repository, "none"], 1)):
        said = world.perago("protect", *arguments)
        assert said.code == code
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1


def test_staging_branches_of_attempts_that_are_over_are_revoked(world: World) -> None:
    over = world.start(world.by_hand("in/x"))
    world.staged(over)
    world.terminate(over.attempt.workflow_id)
    protect(world)
    assert world.staging_branches() == []


def test_a_removal_leaves_a_branch_alone_that_moves_meanwhile(world: World) -> None:
    """The source of its merge has no hooks, so the command itself looks: directly before, and at the result."""
    world.by_hand("in/x")
    protect(world)
    listed = TargetBranch.list_rivals

    def late(target: TargetBranch, but: Sequence[BranchName]) -> list[StagingName]:
        head = world.head().id
        merge(world, branch(world, "meanwhile", head), head)
        return listed(target, but)

    with mock.patch.object(TargetBranch, "list_rivals", late):
        said = world.perago("protect", world.repository, "main", "--remove")
    assert said.code == 1
    assert "branch main moved while" in said.err
    assert world.head().message == "by hand"
    assert protection.state(world.server.lake, world.repository, MAIN, MAIN) is protection.State.INSTALLED


def test_a_removal_that_met_another_commit_says_so(world: World) -> None:
    world.by_hand("in/x")
    protect(world)
    merged = LakeFS.merge

    def late(lake: LakeFS, *arguments: object, **named: object) -> CommitId:
        with mock.patch.object(LakeFS, "merge", merged):
            head = world.head().id
            merge(world, branch(world, "meanwhile", head), head)
        return merged(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]

    with mock.patch.object(LakeFS, "merge", late):
        said = world.perago("protect", world.repository, "main", "--remove")
    assert said.code == 1
    assert f"run perago doctor {world.target}" in said.err
