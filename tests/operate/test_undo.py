"""`perago undo` on real servers: what it reverts, what it refuses, and how attempts treat its commit."""

import getpass
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from tests.support.operator import MAIN, CommandResult, OperatorHarness

from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeUnknown, PublishFenceError
from perago.lake.client import LakeFS
from perago.model import BranchName, CommitId, WorkspaceRef
from perago.operate import branch_move
from perago.operate import undo as revert
from perago.protocol import staging_names


def undo(harness: OperatorHarness, commit: str, *options: str) -> CommandResult:
    return harness.perago("undo", harness.target, commit, "--yes", *options)


def undone(harness: OperatorHarness, commit: str) -> CommitId:
    said = undo(harness, commit, "--json")
    assert (said.code, said.err) == (0, "")
    assert harness.staging_branches() == []
    assert (said.json["commit"], said.json["undone"]) == (harness.head().id, commit)
    return harness.head().id


def refused(harness: OperatorHarness, commit: str, *words: str) -> None:
    before = harness.head().id
    said = undo(harness, commit)
    assert said.code == 1, said.out
    assert len(said.err.splitlines()) == 1
    for word in words:
        assert word in said.err
    assert harness.head().id == before
    assert harness.staging_branches() == []


def content(harness: OperatorHarness) -> dict[str, bytes]:
    infos = harness.server.lake.objects(harness.repository, MAIN, "").objects
    read = harness.server.lake.read_small(harness.repository, MAIN, infos)
    return {info.path: data for info, (_, data) in zip(infos, read, strict=True)}


def test_the_newest_publication_is_reverted_by_a_new_one_that_stays(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x", b"first")
    published = harness.accepted(harness.accepted(seed, {"gone": b"1"}).commit, {"x": b"second", "new": b"2", "gone": None})
    said = undo(harness, published.commit[:12])
    assert said.code == 0, said.err
    head = harness.head()
    assert head.parents == (published.commit,)
    assert content(harness) == {"in/x": b"first", "in/gone": b"1"}
    assert [line for line in said.out.splitlines() if line.startswith("  ")] == [
        "  add again: in/gone",
        "  remove: in/new",
        "  put back: in/x",
    ]
    assert "on branch main: 1 to remove, 1 to put back, 1 to add again" in said.out
    assert said.out.splitlines()[-1] == f"branch main is at {head.id}, which undoes {published.commit}"
    assert said.err == "warning: workflows that started before that commit are refused: start new ones from the new head\n"
    assert harness.staging_branches() == []
    # Who undid what.
    shown = harness.perago("log", harness.target).out.splitlines()[0]
    assert shown.startswith(head.id[:12])
    assert f"operator    undo of {published.commit[:12]} by {getpass.getuser()}@" in shown
    assert any(f"was undone by {head.id}" in line for line in harness.real.logs(published.polled.attempt.task_id))
    # Twice.
    refused(harness, published.commit, "nothing to undo: the branch has every object", "[PG-360]")
    # An older input is refused whatever the setting; a new workflow from the head is not.
    with pytest.raises(AssertionError, match="made by `perago undo`; start a new workflow from it"):
        harness.run(harness.start(published.commit))
    assert harness.head().id == head.id
    harness.accepted(head.id)
    assert not harness.actions()


def test_an_older_publication_is_reverted_and_later_ones_stay(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x", b"first")
    older = harness.accepted(seed, {"x": b"second", "a": b"1"})
    later = harness.accepted(older.commit, {"b": b"2"})
    made = undone(harness, older.commit)
    assert harness.head().parents == (later.commit,)
    assert content(harness) == {"in/x": b"first", "in/b": b"2"}
    # An undo can be undone.
    undone(harness, made)
    assert content(harness) == {"in/x": b"second", "in/a": b"1", "in/b": b"2"}


def test_objects_that_later_publications_changed_are_named(harness: OperatorHarness) -> None:
    names = [f"f{number:02}" for number in range(22)]
    older = harness.accepted(harness.by_hand("in/x"), {"kept": b"1", **dict.fromkeys(names, b"1")})
    latest = harness.accepted(older.commit, dict.fromkeys(names[:2], b"2"))
    refused(harness, older.commit, f"later commits changed what {older.commit} wrote: 'in/f00', 'in/f01'; undo those first")
    harness.accepted(latest.commit, dict.fromkeys(names, b"3"))
    refused(harness, older.commit, "'in/f00', ", "'in/f19' and 2 more; undo those first")


def test_what_cannot_be_undone(harness: OperatorHarness) -> None:
    first = harness.head().id
    seed = harness.by_hand("in/x")
    side = BranchName("side")
    harness.server.lake.create_branch(harness.repository, side, seed)
    elsewhere = harness.by_hand("in/y", branch=side)
    refused(harness, first, "is the first commit of the repository")
    refused(harness, elsewhere, f"{elsewhere} is not in the history of branch main; perago log {harness.target}")
    running = harness.run(harness.start(seed))
    refused(harness, seed, f"its head {running.commit} is still running", "wait for it, or end its workflow")
    harness.terminate(running.polled.attempt.workflow_id)
    refused(harness, seed, f"its head {running.commit} is not accepted", f"run perago recover {harness.target} first")
    assert harness.perago("recover", harness.target, "--yes").code == 0
    # What a merge by hand brought is reverted.
    harness.server.request("POST", f"/repositories/{harness.repository}/refs/{side}/merge/main", {"message": "merged by hand"})
    merged = harness.head()
    assert merged.parents == (seed, elsewhere)
    undone(harness, merged.id)
    assert content(harness) == {"in/x": b"x"}


def test_an_undone_object_is_blamed_on_its_writer_and_on_the_undo(harness: OperatorHarness) -> None:
    writer = harness.accepted(harness.by_hand("in/x"), {"out": b"good"})
    bad = harness.accepted(writer.commit, {"out": b"bad"})
    made = undone(harness, bad.commit)
    (found,) = harness.perago("blame", harness.target, "in/out", "--json").json["objects"]
    assert found["written_by"]["commit"] == writer.commit
    assert [(one["commit"], one["undoes"]) for one in found["put_back_by"]] == [(made, bad.commit)]
    shown = harness.perago("blame", harness.target, "in/out").out.splitlines()
    assert shown[1].startswith(f"  put back by {made[:12]}")
    assert shown[2].startswith(f"  {writer.commit[:12]}")


def test_a_running_attempt_is_named_and_the_branch_left_alone(harness: OperatorHarness) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    live = harness.start(published.commit)
    staging = harness.staged(live)
    said = undo(harness, published.commit)
    assert said.code == 1
    assert f"{live.attempt.workflow_id} is about to publish to it" in said.err
    assert harness.head().id == published.commit
    assert harness.staging_branches() == [staging]


def test_an_attempt_that_publishes_meanwhile_goes_first(harness: OperatorHarness) -> None:
    """It sees the staging branch of the command, whose task Conductor does not know, and deletes it."""
    older = harness.accepted(harness.by_hand("in/x"))
    require_still = TargetBranch.require_still
    published: list[CommitId] = []

    def overtaken(branch: TargetBranch, judged: CommitId) -> None:
        require_still(branch, judged)
        if branch.attempt.task_type == "perago-undo":
            published.append(harness.accepted(older.commit).commit)

    with mock.patch.object(TargetBranch, "require_still", overtaken):
        refused_said = undo(harness, older.commit)
    assert refused_said.code == 1
    assert "branch main was left alone: another attempt or command is about to publish to it; try again" in refused_said.err
    assert published == [harness.head().id]
    assert harness.staging_branches() == []
    undone(harness, older.commit)
    assert harness.head().parents == (published[0],)


def test_of_two_undos_at_the_same_moment_one_succeeds(harness: OperatorHarness) -> None:
    """Each has its staging branch when the other one lists them, and has listed them when the other one revokes."""
    first = harness.accepted(harness.by_hand("in/x"), {"a": b"1"})
    second = harness.accepted(first.commit, {"b": b"2"})
    list_rivals = TargetBranch.list_rivals
    together = threading.Barrier(2, timeout=30)

    def in_step(branch: TargetBranch, but: Sequence[BranchName]) -> list[staging_names.StagingName]:
        together.wait()
        found = list_rivals(branch, but)
        together.wait()
        return found

    def attempted(commit: CommitId) -> str:
        with harness.connected() as both:
            try:
                return revert.apply(both, revert.plan(both, harness.repository, MAIN, commit)).id
            except PublishFenceError as error:
                return str(error)

    with mock.patch.object(TargetBranch, "list_rivals", in_step), ThreadPoolExecutor(2) as pool:
        results = list(pool.map(attempted, [first.commit, second.commit]))
    assert harness.head().first_parent == second.commit
    (succeeded,) = [number for number, result in enumerate(results) if result == harness.head().id]
    assert "left alone: another perago undo is about to publish to it; run the command again when" in results[1 - succeeded]
    assert harness.staging_branches() == []
    undone(harness, [first.commit, second.commit][1 - succeeded])
    assert content(harness) == {"in/x": b"x"}


@pytest.mark.parametrize("command", ["undo", "recover"])
def test_the_staging_branch_of_another_command_goes_first_unless_it_was_left_behind(
    harness: OperatorHarness, command: str
) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    arguments = [command, harness.target, *([published.commit] if command == "undo" else []), "--yes"]
    if command == "recover":
        harness.abandoned(published.commit)
    target = WorkspaceRef(harness.repository, MAIN, harness.head().id)
    with harness.connected() as both:
        other = branch_move.begin(both, "undo", target).staging
    for age, code in ((5, 1), (3600, 0)):
        execution = staging_names.execution_id(time.time() - age, bytes(8))
        name = staging_names.staging_branch(other.attempt, execution, MAIN)
        harness.server.lake.create_branch(harness.repository, name, harness.head().id)
        said = harness.perago(*arguments)
        assert said.code == code, said
        assert ("another perago undo is about to publish to it" in said.err) == (code == 1)
        assert harness.staging_branches() == ([name] if code else [])
        if code:
            harness.server.lake.delete_branch(harness.repository, name)


def test_a_lost_reply_is_settled_by_the_head(harness: OperatorHarness) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    merge = LakeFS.merge

    def cut_off(lake: LakeFS, *arguments: object, **named: object) -> CommitId:
        merge(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]
        raise LakeUnknown("no answer")

    with mock.patch.object(LakeFS, "merge", cut_off):
        undone(harness, published.commit)
    assert content(harness) == {"in/x": b"x"}


def test_a_protected_branch_takes_an_undo_and_its_hooks_are_not_undone(harness: OperatorHarness) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    assert harness.perago("protect", harness.repository, "main").code == 0
    refused(harness, harness.head().id, "was made by perago protect; use perago protect")
    undone(harness, published.commit)
    assert content(harness).keys() == {"in/x", "_lakefs_actions/perago_protect_main.yaml"}


@pytest.mark.parametrize("answer", ["y", "n"])
def test_confirmation_is_requested_on_a_terminal(harness: OperatorHarness, answer: str) -> None:
    published = harness.accepted(harness.by_hand("in/x"))
    quiet = harness.perago("undo", harness.target, published.commit)
    assert (quiet.code, "pass --yes to go ahead" in quiet.err) == (1, True)
    said = harness.perago_on_a_terminal(answer, "undo", harness.target, published.commit)
    assert "Publish this undo?" in said.out, said.err
    assert said.code == (0 if answer == "y" else 130)
    assert (harness.head().id == published.commit) == (answer == "n")
