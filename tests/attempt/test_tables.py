"""Every row of both tables of the protocol, and what an attempt refuses, on the in-memory lake and on a real lakeFS."""

import pytest
from tests.attempt.bed import Bed, Server, once, raising, writing

from perago.attempt import spine
from perago.errors import LakeUnavailable, TaskStatus
from perago.model import BranchName, CommitId, Repository
from perago.protocol import names
from perago.testing import attempts
from perago.testing.attempts import DictTask, workspace_input
from perago.testing.lake import MemoryLake
from perago.testing.scene import MAIN, Tap, ref_of

WRITES = {"create_branch", "delete_branch", "commit_branch", "merge", "relocate", "write", "delete_objects"}


def test_a_change_on_the_input_is_merged(bed: Bed) -> None:
    outcome = bed.run(bed.start(), writing(x=b"2", y=b"new"))
    assert outcome.status is TaskStatus.COMPLETED
    head = bed.head()
    assert ref_of(outcome) == head.id
    assert head.parents == (bed.a,)
    assert bed.content(head.id) == {"in/x": b"2", "in/y": b"new", "other": b"outside"}
    assert outcome.output == {
        "workspace": {"repository": bed.repository, "branch": "main", "ref_type": "commit", "ref": head.id},
        "result": {"files": 2},
    }
    assert bed.staging_branches() == []


def test_a_change_replaces_an_abandoned_publication(bed: Bed) -> None:
    abandoned = bed.publish({"in/x": b"abandoned", "in/z": b"abandoned"})
    outcome = bed.run(bed.start(), writing(x=b"2"))
    head = bed.head()
    assert ref_of(outcome) == head.id != abandoned.id
    assert head.parents == (bed.a,)
    assert bed.content(head.id) == {"in/x": b"2", "other": b"outside"}
    assert bed.staging_branches() == []


@pytest.mark.parametrize("task", [writing(x=b"2"), DictTask()], ids=["change", "no-op"])
def test_any_other_head_is_refused_and_left_alone(bed: Bed, task: DictTask) -> None:
    bed.publish({"in/x": b"2nd"})
    moved = bed.publish({"in/x": b"3rd"})
    outcome = bed.run(bed.start(), task)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.output is None
    assert moved.id in str(outcome.reason)
    assert bed.a in str(outcome.reason)
    assert bed.head() == moved
    assert bed.staging_branches() == []


def test_a_head_before_the_input_is_refused(bed: Bed) -> None:
    later = bed.publish({"in/x": b"2nd"}, _branch(bed, "later"))
    outcome = bed.run(bed.start(later.id), writing(x=b"3"))
    assert outcome.status is TaskStatus.FAILED
    assert bed.head().id == bed.a
    bed.lake.delete_branch(bed.repository, BranchName("later"))


def test_a_no_op_on_the_input_makes_no_branch_and_no_commit(bed: Bed) -> None:
    polled = bed.start()
    bed.calls.clear()
    outcome = bed.run(polled, DictTask())
    assert ref_of(outcome) == bed.a
    assert set(bed.calls) & WRITES == set()
    assert bed.head().id == bed.a


def test_a_no_op_moves_an_abandoned_publication_back(bed: Bed) -> None:
    bed.publish({"in/x": b"abandoned"})
    polled = bed.start()
    bed.calls.clear()
    outcome = bed.run(polled, DictTask())
    assert ref_of(outcome) == bed.a
    assert bed.head().id == bed.a
    assert bed.calls["commit_branch"] == 0
    assert bed.staging_branches() == []


def test_a_change_that_turns_out_to_be_none_is_a_no_op(bed: Bed) -> None:
    """A workspace may suspect a change that lakeFS does not see: an upload of the same bytes."""
    polled = bed.start()
    tap = bed.tap

    def same_again(workspace: dict[str, bytes]) -> None:
        workspace["x"] = b"2"

    def undo() -> None:
        for name in bed.staging_branches():
            attempts.upload(bed.lake, bed.repository, name, "in/x", b"1")

    tap.before["commit_branch"] = undo
    outcome = bed.run(polled, DictTask(same_again), tap)
    assert ref_of(outcome) == bed.a
    assert bed.head().id == bed.a
    assert bed.staging_branches() == []


def test_read_only_writes_nothing_and_never_looks_at_the_head(bed: Bed) -> None:
    bed.publish({"in/x": b"2nd"})
    moved = bed.publish({"in/x": b"3rd"})
    polled = bed.start()
    bed.conductor.terminate(polled.attempt.workflow_id)
    task = writing(x=b"discarded")
    bed.calls.clear()
    outcome = bed.run(polled, DictTask(task.run, read_only=True))
    assert ref_of(outcome) == bed.a
    assert set(bed.calls) == {"commit", "objects", "read"}
    assert bed.head() == moved


@pytest.mark.parametrize("wrong", ["branch", "short", "tag"])
def test_a_ref_that_is_no_commit_id_is_refused_for_good(bed: Bed, request: pytest.FixtureRequest, wrong: str) -> None:
    if isinstance(bed.lake, MemoryLake):
        bed.lake.tag(bed.repository, "v1", bed.a)
    elif wrong == "tag":
        server: Server = request.getfixturevalue("server")
        server.tag(bed.repository, "v1", bed.a)
    ref = {"branch": "main", "short": bed.a[:12], "tag": "v1"}[wrong]
    task = writing(x=b"2")
    outcome = bed.run(bed.start(CommitId(ref)), task)
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert outcome.reason == f"workspace.ref {ref} is not a commit id: it resolves to {bed.a}; pass that id itself"
    assert task.calls == []


@pytest.mark.parametrize("ref", ["f" * 64, "nothing"])
def test_a_ref_of_another_repository_is_not_found(bed: Bed, ref: str) -> None:
    outcome = bed.run(bed.start(CommitId(ref)), writing(x=b"2"))
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"workspace.ref {ref} does not exist in repository {bed.repository}"


def test_a_dirty_target_is_named_and_left_alone_when_merging(bed: Bed) -> None:
    bed.dirty()
    outcome = bed.run(bed.start(), writing(x=b"2"))
    assert outcome.status is TaskStatus.FAILED
    assert "branch main has uncommitted changes" in str(outcome.reason)
    assert bed.head().id == bed.a
    assert bed.staging_branches() == []


@pytest.mark.parametrize("task", [writing(x=b"2"), DictTask()], ids=["replace", "move back"])
def test_a_dirty_target_is_named_and_left_alone_when_relocating(bed: Bed, task: DictTask) -> None:
    abandoned = bed.publish({"in/x": b"abandoned"})
    bed.dirty()
    outcome = bed.run(bed.start(), task)
    assert outcome.status is TaskStatus.FAILED
    assert "branch main has uncommitted changes" in str(outcome.reason)
    assert bed.head() == abandoned
    assert bed.staging_branches() == []


def test_a_protected_target_takes_merges_and_says_what_a_relocation_needs(bed: Bed) -> None:
    abandoned = bed.publish({"in/x": b"abandoned"})
    bed.protect()
    refused = bed.run(bed.start(), writing(x=b"2"))
    assert refused.status is TaskStatus.FAILED
    assert refused.reason == (
        "lakeFS does not let this worker relocate branch main: "
        "allow its credentials fs:RevertBranch on it and take it out of the branch protection rules"
    )
    assert bed.head() == abandoned
    merged = bed.run(bed.start(abandoned.id), writing(x=b"3"))
    assert merged.status is TaskStatus.COMPLETED
    assert bed.head().parents == (abandoned.id,)
    assert bed.staging_branches() == []


def test_a_staging_name_that_is_taken_fails_closed_and_is_not_deleted(bed: Bed) -> None:
    execution = bed.execution(bed.start().attempt, writing(x=b"2"))
    name = names.staging_branch(execution.attempt, execution.id, MAIN)
    bed.lake.create_branch(bed.repository, name, bed.a)
    outcome = spine.run(execution, workspace_input(bed.target()))
    assert outcome.status is TaskStatus.FAILED
    assert "staging branch of this execution exists already" in str(outcome.reason)
    assert name not in str(outcome)
    assert bed.staging_branches() == [name]
    assert bed.head().id == bed.a


@pytest.mark.parametrize("verb", ["write", "commit_branch", "branches", "head"])
def test_a_failure_half_way_leaves_no_branch(bed: Bed, verb: str) -> None:
    tap = bed.tap
    tap.after[verb] = raising(LakeUnavailable(f"{verb}: lakeFS cannot be reached"))
    outcome = bed.run(bed.start(), writing(a=b"1", b=b"2", c=b"3"), tap)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"{verb}: lakeFS cannot be reached"
    assert bed.staging_branches() == []
    assert bed.head().id == bed.a


def test_a_reply_cut_while_the_staging_branch_is_made_leaves_no_branch(bed: Bed) -> None:
    tap = bed.tap
    tap.after["create_branch"] = raising(LakeUnavailable("cut"))
    assert bed.run(bed.start(), writing(x=b"2"), tap).status is TaskStatus.FAILED
    assert bed.staging_branches() == []


def test_the_window_between_head_and_publish_holds_no_other_request(bed: Bed) -> None:
    for prepare, publish in ((lambda: None, "merge"), (lambda: bed.publish({"in/x": b"abandoned"}), "relocate")):
        prepare()
        tap = bed.tap
        assert bed.run(bed.start(bed.a), writing(x=publish.encode()), tap).status is TaskStatus.COMPLETED
        assert tap.verbs[tap.verbs.index(publish) - 1] == "head"
        bed.a = bed.head().id


def test_requests_of_publishing_one_changed_file(bed: Bed) -> None:
    polled = bed.start()
    bed.calls.clear()
    assert bed.run(polled, writing(x=b"2")).status is TaskStatus.COMPLETED
    control = {verb: count for verb, count in bed.calls.items() if verb not in {"read", "write"}}
    assert control == {
        "commit": 2,  # the input is a commit id; the merge commit is what it should be
        "objects": 1,
        "create_branch": 1,
        "commit_branch": 1,
        "branches": 1,
        "head": 1,
        "merge": 1,
        "delete_branch": 1,
    }
    assert sum(control.values()) == 9


def test_requests_of_replacing_an_abandoned_publication(bed: Bed) -> None:
    bed.publish({"in/x": b"abandoned"})
    polled = bed.start()
    bed.calls.clear()
    assert bed.run(polled, writing(x=b"2")).status is TaskStatus.COMPLETED
    publishing = {verb: count for verb, count in bed.calls.items() if verb not in {"read", "write", "commit", "objects"}}
    assert publishing == {
        "create_branch": 1,
        "commit_branch": 1,
        "branches": 1,
        "uncommitted": 1,
        "head": 3,
        "relocate": 1,
        "delete_branch": 1,
    }


def test_a_foreign_head_between_reading_and_relocating_is_seen(bed: Bed) -> None:
    bed.publish({"in/x": b"abandoned"})
    tap = bed.tap
    tap.before["uncommitted"] = once(lambda: _move(bed))
    outcome = bed.run(bed.start(), writing(x=b"2"), tap)
    assert outcome.status is TaskStatus.FAILED
    assert "moved while this attempt was about to publish" in str(outcome.reason)
    assert bed.content(bed.head().id)["in/x"] == b"somebody else's"


def _move(bed: Bed) -> None:
    bed.publish({"in/x": b"somebody else's"})


def _branch(bed: Bed, name: str) -> BranchName:
    bed.lake.create_branch(bed.repository, BranchName(name), bed.a)
    return BranchName(name)


def test_the_repository_must_exist(bed: Bed) -> None:
    polled = bed.start()
    elsewhere = {**polled.input["workspace"], "repository": Repository("no-such-repository")}
    outcome = spine.run(bed.execution(polled.attempt, writing(x=b"2"), Tap(bed.lake)), {"workspace": elsewhere, "params": {}})
    assert outcome.status is TaskStatus.FAILED
    assert "does not exist in repository no-such-repository" in str(outcome.reason)
