"""`perago recover` on real servers: what it shows, what it moves, and what it leaves alone."""

import os
import pty
import subprocess
import sys
from unittest import mock

import pytest
from tests.support.operator import MAIN, World

from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeUnknown
from perago.lake.client import LakeFS
from perago.model import BranchName


def test_unaccepted_commits_are_taken_off_and_a_second_run_has_nothing_to_do(world: World) -> None:
    accepted = world.accepted(world.by_hand("in/x"))
    first = world.abandoned(accepted.commit)
    second = world.abandoned(first.commit)
    left = world.staged(second.polled)
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 0, said.err
    assert said.err == ""
    assert world.head().id == accepted.commit
    for published in (first, second):
        attempt = published.polled.attempt
        assert f"workflow {attempt.workflow_id}, step s0, task {attempt.task_id}, attempt 0" in said.out
        assert f"off the branch: {published.commit[:12]}… not accepted: its task is CANCELED" in said.out
        assert any(accepted.commit in line for line in world.real.logs(attempt.task_id))
    assert f"Conductor: the task is COMPLETED, its workflow COMPLETED, its output names {accepted.commit}" in said.out
    assert said.out.splitlines()[-1] == f"branch main is at {accepted.commit}"
    assert left not in world.staging_branches()
    assert world.staging_branches() == []
    again = world.perago("recover", world.target)
    assert again.code == 0
    assert again.out.splitlines()[-1].startswith(f"nothing to do: the head {accepted.commit} is accepted")
    world.accepted(accepted.commit)


def test_nothing_happens_without_a_yes(world: World) -> None:
    abandoned = world.abandoned(world.by_hand("in/x"))
    said = world.perago("recover", world.target)
    assert said.code == 1
    assert "there is no terminal to ask on; pass --yes" in said.err
    assert world.head().id == abandoned.commit


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked(world: World, answer: str) -> None:
    seed = world.by_hand("in/x")
    abandoned = world.abandoned(seed)
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", "from perago.cli.main import main; main()", "recover", world.target],
            env={**os.environ, **world.stack.environment()},
            cwd=world.folder,
            stdin=follower,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(leader, f"{answer}\n".encode())
        out, err = process.communicate(timeout=60)
    finally:
        os.close(leader)
        os.close(follower)
    assert b"Move the branch?" in out, err
    assert process.returncode == (0 if answer == "y" else 130)
    assert world.head().id == (seed if answer == "y" else abandoned.commit)


def test_the_accepted_commit_is_put_back(world: World) -> None:
    accepted, shown = world.displaced(world.by_hand("in/x"))
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 0, said.err
    assert world.head().id == accepted.commit
    assert f"{shown.commit[:12]}… not accepted: Conductor accepted {accepted.commit}" in said.out
    assert not world.actions()
    assert world.perago("recover", world.target).out.splitlines()[-1].startswith("nothing to do")


def test_an_accepted_commit_is_put_back_on_a_branch_that_was_moved_away(world: World) -> None:
    seed = world.by_hand("in/x")
    kept = world.accepted(seed)
    lost = world.accepted(kept.commit)
    also = world.run(world.start(lost.commit, steps=2))
    world.report(also)
    world.server.lake.create_branch(world.repository, BranchName("back"), kept.commit)
    world.server.lake.relocate(world.repository, MAIN, BranchName("back"), timeout=20)
    # The workflow of the lost commits is known as long as one of its staging branches or commits is there.
    world.staged(world.poll())
    world.terminate(also.polled.attempt.workflow_id)
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 0, said.err
    assert world.head().id == also.commit


def test_a_running_attempt_is_named_and_the_branch_left_alone(world: World) -> None:
    seed = world.by_hand("in/x")
    abandoned = world.abandoned(seed)
    live = world.start(seed)
    staging = world.staged(live)
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 1
    assert f"{live.attempt.workflow_id} is about to publish to it" in said.err
    assert world.head().id == abandoned.commit
    assert world.staging_branches() == [staging]


def test_a_commit_that_may_still_be_reported_is_left_alone(world: World) -> None:
    published = world.run(world.start(world.by_hand("in/x")))
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 0
    assert "still running" in said.out.splitlines()[-1]
    forced = world.perago("recover", world.target, "--yes", "--to", published.polled.input["workspace"]["ref"])
    assert forced.code == 1
    assert "still runs and may report it" in forced.err
    assert world.head().id == published.commit


def test_an_accepted_commit_goes_only_when_it_is_named(world: World) -> None:
    seed = world.by_hand("in/x")
    accepted = world.accepted(seed)
    assert world.perago("recover", world.target, "--yes").code == 0
    assert world.head().id == accepted.commit
    said = world.perago("recover", world.target, "--to", seed[:16], "--yes")
    assert said.code == 0, said.err
    assert f"warning: this takes {accepted.commit} off the branch, which is accepted: step s0" in said.err
    assert world.head().id == seed


def test_hand_made_commits_go_only_when_they_are_named(world: World) -> None:
    seed = world.by_hand("in/x")
    world.abandoned(seed)
    by_hand = world.by_hand("notes")
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 1
    assert "with --to" in said.err
    assert world.head().id == by_hand
    named = world.perago("recover", world.target, "--yes", "--to", seed)
    assert named.code == 0, named.err
    assert f"this takes {by_hand} off the branch, which is not made by Perago: 'by hand'" in named.err
    assert world.head().id == seed


def test_uncommitted_changes_are_not_moved(world: World) -> None:
    abandoned = world.abandoned(world.by_hand("in/x"))
    world.write("dirt")
    said = world.perago("recover", world.target, "--yes")
    assert said.code == 1
    assert "has uncommitted changes" in said.err
    assert world.head().id == abandoned.commit


def test_an_attempt_that_publishes_meanwhile_goes_first(world: World) -> None:
    """It sees the handle of the command, whose task Conductor does not know, and deletes it."""
    seed = world.by_hand("in/x")
    abandoned = world.abandoned(seed)
    revoke = TargetBranch.revoke

    def overtaken(branch: TargetBranch, *arguments: object) -> None:
        revoke(branch, *arguments)  # pyright: ignore[reportArgumentType]
        if branch.attempt.task_type == "perago-recover":
            published.append(world.run(world.start(seed)))

    published: list[object] = []
    with mock.patch.object(TargetBranch, "revoke", overtaken):
        said = world.perago("recover", world.target, "--yes")
    assert said.code == 1
    assert "branch main moved while" in said.err
    assert [world.head().id] == [one.commit for one in published]  # pyright: ignore[reportAttributeAccessIssue]
    assert world.head().id != abandoned.commit
    assert world.staging_branches() == []


def test_a_lost_reply_is_settled_by_the_head(world: World) -> None:
    seed = world.by_hand("in/x")
    world.abandoned(seed)
    relocate = LakeFS.relocate

    def cut_off(lake: LakeFS, *arguments: object, **named: object) -> None:
        relocate(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]
        raise LakeUnknown("no answer")

    with mock.patch.object(LakeFS, "relocate", cut_off):
        assert world.perago("recover", world.target, "--yes").code == 0
    assert world.head().id == seed


def test_bad_input(world: World) -> None:
    seed = world.by_hand("in/x")
    for arguments, code in (
        (["recover", world.repository], 2),
        (["recover", f"{world.repository}/"], 2),
        (["recover", f"{world.repository}/none"], 1),
        (["recover", world.target, "--to", "0123456789abcdef"], 1),
        (["recover", world.target, "--to", "main"], 1),
    ):
        said = world.perago(*arguments)
        assert said.code == code, said
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1
    elsewhere = world.perago("recover", world.target, "--to", _other(world))
    assert "is neither in the history of main nor a commit that Conductor accepted" in elsewhere.err
    assert world.head().id == seed


def _other(world: World) -> str:
    branch = BranchName("elsewhere")
    world.server.lake.create_branch(world.repository, branch, world.head().id)
    return world.by_hand("elsewhere", branch=branch)
