"""`perago recover` on real servers: what it shows, what it moves, and what it does not change."""

from unittest import mock

import pytest
from tests.support.operator import MAIN, OperatorHarness

from perago.attempt.target_branch import TargetBranch
from perago.errors import LakeUnknown
from perago.lake.client import LakeFS
from perago.model import BranchName


def test_unaccepted_commits_are_taken_off_and_a_second_run_has_nothing_to_do(harness: OperatorHarness) -> None:
    accepted = harness.accepted(harness.by_hand("in/x"))
    first = harness.abandoned(accepted.commit)
    second = harness.abandoned(first.commit)
    left = harness.staged(second.polled)
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 0, said.err
    assert said.err == ""
    assert harness.head().id == accepted.commit
    for published in (first, second):
        attempt = published.polled.attempt
        assert f"workflow {attempt.workflow_id}, step s0, task {attempt.task_id}, attempt 1" in said.out
        assert f"removed: {published.commit[:12]}… not accepted: its task is CANCELED" in said.out
        assert any(accepted.commit in line for line in harness.real.logs(attempt.task_id))
    assert f"Conductor: the task is COMPLETED, its workflow COMPLETED, its output names {accepted.commit}" in said.out
    assert said.out.splitlines()[-1] == f"branch main is at {accepted.commit}"
    assert left not in harness.staging_branches()
    assert harness.staging_branches() == []
    again = harness.perago("recover", harness.target)
    assert again.code == 0
    assert again.out.splitlines()[-1].startswith(f"nothing to do: the head {accepted.commit} is accepted")
    harness.accepted(accepted.commit)


def test_nothing_is_moved_without_confirmation(harness: OperatorHarness) -> None:
    abandoned = harness.abandoned(harness.by_hand("in/x"))
    said = harness.perago("recover", harness.target)
    assert said.code == 1
    assert "there is no terminal to ask on; pass --yes" in said.err
    assert harness.head().id == abandoned.commit


@pytest.mark.parametrize("answer", ["y", "n"])
def test_confirmation_is_requested_on_a_terminal(harness: OperatorHarness, answer: str) -> None:
    seed = harness.by_hand("in/x")
    abandoned = harness.abandoned(seed)
    said = harness.perago_on_a_terminal(answer, "recover", harness.target)
    assert "Move the branch?" in said.out, said.err
    assert said.code == (0 if answer == "y" else 130)
    assert harness.head().id == (seed if answer == "y" else abandoned.commit)


def test_the_accepted_commit_is_put_back(harness: OperatorHarness) -> None:
    accepted, shown = harness.displaced(harness.by_hand("in/x"))
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 0, said.err
    assert harness.head().id == accepted.commit
    assert f"{shown.commit[:12]}… not accepted: Conductor accepted {accepted.commit}" in said.out
    assert not harness.actions()
    assert harness.perago("recover", harness.target).out.splitlines()[-1].startswith("nothing to do")


def test_an_accepted_commit_is_put_back_on_a_branch_that_was_moved_away(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    kept = harness.accepted(seed)
    lost = harness.accepted(kept.commit)
    also = harness.run(harness.start(lost.commit, steps=2))
    harness.report(also)
    harness.server.lake.create_branch(harness.repository, BranchName("back"), kept.commit)
    harness.server.lake.relocate(harness.repository, MAIN, BranchName("back"), timeout=20)
    # The workflow of the lost commits is known as long as one of its staging branches or commits is there.
    harness.staged(harness.poll())
    harness.terminate(also.polled.attempt.workflow_id)
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 0, said.err
    assert harness.head().id == also.commit


def test_a_running_attempt_is_named_and_the_branch_left_alone(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    abandoned = harness.abandoned(seed)
    live = harness.start(seed)
    staging = harness.staged(live)
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 1
    assert f"{live.attempt.workflow_id} is about to publish to it" in said.err
    assert harness.head().id == abandoned.commit
    assert harness.staging_branches() == [staging]


def test_a_commit_that_may_still_be_reported_is_left_alone(harness: OperatorHarness) -> None:
    published = harness.run(harness.start(harness.by_hand("in/x")))
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 0
    assert "still running" in said.out.splitlines()[-1]
    forced = harness.perago("recover", harness.target, "--yes", "--to", published.polled.input["workspace"]["ref"])
    assert forced.code == 1
    assert "still runs and may report it" in forced.err
    assert harness.head().id == published.commit


def test_an_accepted_commit_goes_only_when_it_is_named(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    accepted = harness.accepted(seed)
    assert harness.perago("recover", harness.target, "--yes").code == 0
    assert harness.head().id == accepted.commit
    said = harness.perago("recover", harness.target, "--to", seed[:16], "--yes")
    assert said.code == 0, said.err
    assert f"warning: this removes {accepted.commit} from the branch, which is accepted: step s0" in said.err
    assert harness.head().id == seed


def test_hand_made_commits_go_only_when_they_are_named(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    harness.abandoned(seed)
    by_hand = harness.by_hand("notes")
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 1
    assert "with --to" in said.err
    assert harness.head().id == by_hand
    named = harness.perago("recover", harness.target, "--yes", "--to", seed)
    assert named.code == 0, named.err
    assert f"this removes {by_hand} from the branch, which is not made by Perago: 'by hand'" in named.err
    assert harness.head().id == seed


def test_uncommitted_changes_are_not_moved(harness: OperatorHarness) -> None:
    abandoned = harness.abandoned(harness.by_hand("in/x"))
    harness.write("dirt")
    said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 1
    assert "has uncommitted changes" in said.err
    assert harness.head().id == abandoned.commit


def test_an_attempt_that_publishes_meanwhile_goes_first(harness: OperatorHarness) -> None:
    """It sees the handle of the command, whose task Conductor does not know, and deletes it."""
    seed = harness.by_hand("in/x")
    abandoned = harness.abandoned(seed)
    revoke = TargetBranch.revoke

    def overtaken(branch: TargetBranch, *arguments: object) -> None:
        revoke(branch, *arguments)  # pyright: ignore[reportArgumentType]
        if branch.attempt.task_type == "perago-recover":
            published.append(harness.run(harness.start(seed)))

    published: list[object] = []
    with mock.patch.object(TargetBranch, "revoke", overtaken):
        said = harness.perago("recover", harness.target, "--yes")
    assert said.code == 1
    assert "branch main moved while" in said.err
    assert [harness.head().id] == [one.commit for one in published]  # pyright: ignore[reportAttributeAccessIssue]
    assert harness.head().id != abandoned.commit
    assert harness.staging_branches() == []


def test_a_lost_reply_is_settled_by_the_head(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    harness.abandoned(seed)
    relocate = LakeFS.relocate

    def cut_off(lake: LakeFS, *arguments: object, **named: object) -> None:
        relocate(lake, *arguments, **named)  # pyright: ignore[reportArgumentType]
        raise LakeUnknown("no answer")

    with mock.patch.object(LakeFS, "relocate", cut_off):
        assert harness.perago("recover", harness.target, "--yes").code == 0
    assert harness.head().id == seed


def test_bad_input(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    for arguments, code in (
        (["recover", harness.repository], 2),
        (["recover", f"{harness.repository}/"], 2),
        (["recover", f"{harness.repository}/none"], 1),
        (["recover", harness.target, "--to", "0123456789abcdef"], 1),
        (["recover", harness.target, "--to", "main"], 1),
    ):
        said = harness.perago(*arguments)
        assert said.code == code, said
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1
    elsewhere = harness.perago("recover", harness.target, "--to", _other(harness))
    assert "is neither in the history of main nor a commit that Conductor accepted" in elsewhere.err
    assert harness.head().id == seed


def _other(harness: OperatorHarness) -> str:
    branch = BranchName("elsewhere")
    harness.server.lake.create_branch(harness.repository, branch, harness.head().id)
    return harness.by_hand("elsewhere", branch=branch)
