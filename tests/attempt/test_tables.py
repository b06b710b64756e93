"""Every row of both tables of the protocol, and what an attempt refuses, on the in-memory lake and on a real lakeFS."""

from dataclasses import replace

import pytest
from tests.support import memory_lake
from tests.support.attempts import AttemptScene, LakeFSAdmin, once, raising, writing
from tests.support.recording import RecordingTask

from perago.attempt import transaction
from perago.conductor.direct_fence import DirectFence
from perago.errors import LakeUnavailable, TaskStatus
from perago.in_memory.lake import MAIN, MemoryLake
from perago.model import Attempt, BranchName, CommitId, Outcome, Repository, Snapshot, TaskId, WorkflowId
from perago.operate.protocol_check.dict_task import DictTask, upload, workspace_input
from perago.operate.protocol_check.scene import Tap, ref_of
from perago.protocol import staging_names

WRITES = {"create_branch", "delete_branch", "commit_branch", "merge", "relocate", "write", "delete_objects"}


def test_a_change_on_the_input_is_merged(scene: AttemptScene) -> None:
    outcome = scene.run(scene.start(), writing(x=b"2", y=b"new"))
    assert outcome.status is TaskStatus.COMPLETED
    head = scene.head()
    assert ref_of(outcome) == head.id
    assert head.parents == (scene.a,)
    assert scene.content(head.id) == {"in/x": b"2", "in/y": b"new", "other": b"outside"}
    assert outcome.output == {
        "workspace": {"repository": scene.repository, "branch": "main", "ref_type": "commit", "ref": head.id},
        "result": {"files": 2},
    }
    assert scene.staging_branches() == []


def test_a_change_replaces_an_abandoned_publication(scene: AttemptScene) -> None:
    abandoned = scene.publish({"in/x": b"abandoned", "in/z": b"abandoned"})
    outcome = scene.run(scene.start(), writing(x=b"2"))
    head = scene.head()
    assert ref_of(outcome) == head.id != abandoned.id
    assert head.parents == (scene.a,)
    assert scene.content(head.id) == {"in/x": b"2", "other": b"outside"}
    assert scene.staging_branches() == []


@pytest.mark.parametrize("task", [writing(x=b"2"), DictTask()], ids=["change", "no-op"])
def test_any_other_head_is_refused_and_left_alone(scene: AttemptScene, task: DictTask) -> None:
    scene.publish({"in/x": b"2nd"})
    moved = scene.publish({"in/x": b"3rd"})
    outcome = scene.run(scene.start(), task)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.output is None
    assert moved.id in str(outcome.reason)
    assert scene.a in str(outcome.reason)
    assert scene.head() == moved
    assert scene.staging_branches() == []


def test_a_head_before_the_input_is_refused(scene: AttemptScene) -> None:
    later = scene.publish({"in/x": b"2nd"}, _branch(scene, "later"))
    outcome = scene.run(scene.start(later.id), writing(x=b"3"))
    assert outcome.status is TaskStatus.FAILED
    assert scene.head().id == scene.a
    scene.lake.delete_branch(scene.repository, BranchName("later"))


def test_a_no_op_on_the_input_makes_no_branch_and_no_commit(scene: AttemptScene) -> None:
    polled = scene.start()
    scene.calls.clear()
    outcome = scene.run(polled, DictTask())
    assert ref_of(outcome) == scene.a
    assert set(scene.calls) & WRITES == set()
    assert scene.head().id == scene.a


def test_a_no_op_moves_an_abandoned_publication_back(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"abandoned"})
    polled = scene.start()
    scene.calls.clear()
    outcome = scene.run(polled, DictTask())
    assert ref_of(outcome) == scene.a
    assert scene.head().id == scene.a
    assert scene.calls["commit_branch"] == 0
    assert scene.staging_branches() == []


def test_a_change_that_turns_out_to_be_none_is_a_no_op(scene: AttemptScene) -> None:
    """A workspace may suspect a change that lakeFS does not see: an upload of the same bytes."""
    polled = scene.start()
    tap = scene.tap

    def same_again(workspace: dict[str, bytes]) -> None:
        workspace["x"] = b"2"

    def undo() -> None:
        for name in scene.staging_branches():
            upload(scene.lake, scene.repository, name, "in/x", b"1")

    tap.before["commit_branch"] = undo
    outcome = scene.run(polled, DictTask(same_again), tap)
    assert ref_of(outcome) == scene.a
    assert scene.head().id == scene.a
    assert scene.staging_branches() == []


def test_read_only_writes_nothing_and_never_looks_at_the_head(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"2nd"})
    moved = scene.publish({"in/x": b"3rd"})
    polled = scene.start()
    scene.conductor.terminate(polled.attempt.workflow_id)
    task = writing(x=b"discarded")
    scene.calls.clear()
    outcome = scene.run(polled, DictTask(task.run, read_only=True))
    assert ref_of(outcome) == scene.a
    assert scene.calls == {"branch": 1, "commit": 1, "objects": 1, "read": 1}
    assert scene.head() == moved


def test_read_only_on_its_input_reads_the_branch_and_the_files(scene: AttemptScene) -> None:
    polled = scene.start()
    scene.calls.clear()
    assert ref_of(scene.run(polled, DictTask(read_only=True))) == scene.a
    assert scene.calls == {"branch": 1, "objects": 1, "read": 1}


@pytest.mark.parametrize("wrong", ["branch", "short", "tag"])
def test_a_ref_that_is_no_commit_id_is_refused_for_good(scene: AttemptScene, request: pytest.FixtureRequest, wrong: str) -> None:
    if isinstance(scene.lake, MemoryLake):
        memory_lake.tag(scene.lake, scene.repository, "v1", scene.a)
    elif wrong == "tag":
        server: LakeFSAdmin = request.getfixturevalue("server")
        server.tag(scene.repository, "v1", scene.a)
    ref = {"branch": "main", "short": scene.a[:12], "tag": "v1"}[wrong]
    task = writing(x=b"2")
    outcome = scene.run(scene.start(CommitId(ref)), task)
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert outcome.reason == f"workspace.ref {ref} is not a commit id: it resolves to {scene.a}; pass that id itself"
    assert task.calls == []


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("wrong", ["commit", "short", "tag"])
def test_a_branch_that_is_a_tag_or_a_commit_is_refused_for_good(
    scene: AttemptScene, request: pytest.FixtureRequest, wrong: str, read_only: bool
) -> None:
    if isinstance(scene.lake, MemoryLake):
        memory_lake.tag(scene.lake, scene.repository, "v1", scene.a)
    elif wrong == "tag":
        server: LakeFSAdmin = request.getfixturevalue("server")
        server.tag(scene.repository, "v1", scene.a)
    branch = {"commit": scene.a, "short": scene.a[:12], "tag": "v1"}[wrong]
    task, tap = RecordingTask(writing(x=b"2").run, read_only), scene.tap
    outcome = on_branch(scene, branch, task, tap)
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert outcome.reason == (
        f"workspace.branch {branch} is a tag or a commit ({scene.a}), not a branch; name the branch to publish to"
    )
    assert task.calls == []
    assert "objects" not in tap.verbs
    assert scene.staging_branches() == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_branch_that_does_not_exist_is_named(scene: AttemptScene, read_only: bool) -> None:
    task, tap = RecordingTask(writing(x=b"2").run, read_only), scene.tap
    outcome = on_branch(scene, "missing", task, tap)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"branch missing does not exist in repository {scene.repository}"
    assert task.calls == []
    assert "objects" not in tap.verbs


@pytest.mark.parametrize("empty", [False, True])
def test_a_branch_that_was_deleted_during_the_body_fails_closed(scene: AttemptScene, empty: bool) -> None:
    side = _branch(scene, "side")

    def body(workspace: dict[str, bytes]) -> None:
        scene.lake.delete_branch(scene.repository, side)
        if not empty:
            workspace["x"] = b"2"

    outcome = on_branch(scene, side, DictTask(body), scene.tap)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.output is None
    assert [branch.name for branch in scene.lake.branches(scene.repository, "")] == ["main"]


def on_branch(scene: AttemptScene, branch: str, task: DictTask, tap: Tap) -> Outcome:
    polled = scene.start()
    given = {**polled.input, "workspace": {**polled.input["workspace"], "branch": branch}}
    return transaction.run(scene.execution(polled.attempt, task, tap), given)


@pytest.mark.parametrize("ref", ["f" * 64, "nothing"])
def test_a_ref_of_another_repository_is_not_found(scene: AttemptScene, ref: str) -> None:
    outcome = scene.run(scene.start(CommitId(ref)), writing(x=b"2"))
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"workspace.ref {ref} does not exist in repository {scene.repository}"


def test_a_dirty_target_is_named_and_left_alone_when_merging(scene: AttemptScene) -> None:
    scene.dirty()
    outcome = scene.run(scene.start(), writing(x=b"2"))
    assert outcome.status is TaskStatus.FAILED
    assert "branch main has uncommitted changes" in str(outcome.reason)
    assert scene.head().id == scene.a
    assert scene.staging_branches() == []


@pytest.mark.parametrize("task", [writing(x=b"2"), DictTask()], ids=["replace", "move back"])
def test_a_dirty_target_is_named_and_left_alone_when_relocating(scene: AttemptScene, task: DictTask) -> None:
    abandoned = scene.publish({"in/x": b"abandoned"})
    scene.dirty()
    outcome = scene.run(scene.start(), task)
    assert outcome.status is TaskStatus.FAILED
    assert "branch main has uncommitted changes" in str(outcome.reason)
    assert scene.head() == abandoned
    assert scene.staging_branches() == []


def test_a_protected_target_takes_merges_and_says_what_a_relocation_needs(scene: AttemptScene) -> None:
    abandoned = scene.publish({"in/x": b"abandoned"})
    scene.protect()
    refused = scene.run(scene.start(), writing(x=b"2"))
    assert refused.status is TaskStatus.FAILED
    assert refused.reason == (
        "lakeFS does not let this worker relocate branch main: "
        "allow its credentials fs:RevertBranch on it and take it out of the branch protection rules"
    )
    assert scene.head() == abandoned
    merged = scene.run(scene.start(abandoned.id), writing(x=b"3"))
    assert merged.status is TaskStatus.COMPLETED
    assert scene.head().parents == (abandoned.id,)
    assert scene.staging_branches() == []


def test_a_staging_name_that_is_taken_fails_closed_and_is_not_deleted(scene: AttemptScene) -> None:
    execution = scene.execution(scene.start().attempt, writing(x=b"2"))
    name = staging_names.staging_branch(execution.attempt, execution.id, MAIN)
    scene.lake.create_branch(scene.repository, name, scene.a)
    outcome = transaction.run(execution, workspace_input(scene.target()))
    assert outcome.status is TaskStatus.FAILED
    assert "staging branch of this execution exists already" in str(outcome.reason)
    assert name not in str(outcome)
    assert scene.staging_branches() == [name]
    assert scene.head().id == scene.a


@pytest.mark.parametrize("verb", ["write", "commit_branch", "branches", "head"])
def test_a_failure_half_way_leaves_no_branch(scene: AttemptScene, verb: str) -> None:
    tap = scene.tap
    tap.after[verb] = raising(LakeUnavailable(f"{verb}: lakeFS cannot be reached"))
    outcome = scene.run(scene.start(), writing(a=b"1", b=b"2", c=b"3"), tap)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"{verb}: lakeFS cannot be reached"
    assert scene.staging_branches() == []
    assert scene.head().id == scene.a


def test_a_reply_cut_while_the_staging_branch_is_made_leaves_no_branch(scene: AttemptScene) -> None:
    tap = scene.tap
    tap.after["create_branch"] = raising(LakeUnavailable("cut"))
    assert scene.run(scene.start(), writing(x=b"2"), tap).status is TaskStatus.FAILED
    assert scene.staging_branches() == []


def test_no_request_is_sent_between_reading_the_head_and_publishing(scene: AttemptScene) -> None:
    for prepare, publish in ((lambda: None, "merge"), (lambda: scene.publish({"in/x": b"abandoned"}), "relocate")):
        prepare()
        tap = scene.tap
        assert scene.run(scene.start(scene.a), writing(x=publish.encode()), tap).status is TaskStatus.COMPLETED
        assert tap.verbs[tap.verbs.index(publish) - 1] == "head"
        scene.a = scene.head().id


def test_requests_of_publishing_one_changed_file(scene: AttemptScene) -> None:
    polled = scene.start()
    scene.calls.clear()
    assert scene.run(polled, writing(x=b"2")).status is TaskStatus.COMPLETED
    control = {verb: count for verb, count in scene.calls.items() if verb not in {"read", "write"}}
    assert control == {
        "branch": 1,  # the early check: it is a branch, and its head is the input
        "objects": 1,
        "create_branch": 1,
        "commit_branch": 1,
        "branches": 2,  # rivals, and whether there are names of the first edition
        "head": 1,
        "merge": 1,
        "commit": 1,  # the merge commit is what it should be
        "delete_branch": 1,
    }
    assert sum(control.values()) == 10


def test_requests_of_replacing_an_abandoned_publication(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"abandoned"})
    polled = scene.start()
    scene.calls.clear()
    assert scene.run(polled, writing(x=b"2")).status is TaskStatus.COMPLETED
    publishing = {verb: count for verb, count in scene.calls.items() if verb not in {"read", "write", "commit", "objects"}}
    assert publishing == {
        "branch": 1,
        "create_branch": 1,
        "commit_branch": 1,
        "branches": 2,
        "interrupt_updates": 1,
        "head": 4,  # the early check, the decision, right before the relocation, and after it
        "relocate": 1,
        "delete_branch": 1,
    }


def test_requests_of_a_no_op_on_its_input(scene: AttemptScene) -> None:
    polled = scene.start()
    scene.calls.clear()
    assert scene.run(polled, DictTask()).status is TaskStatus.COMPLETED
    assert scene.calls == {"branch": 1, "objects": 1, "read": 1, "branches": 2, "head": 1}


def test_requests_to_conductor_where_the_head_is_the_input(scene: AttemptScene) -> None:
    """The attempt fence before staging and before publishing; nothing is asked about the head."""
    asked: list[str] = []

    class Counting(DirectFence):
        def snapshot(self, attempt: Attempt) -> Snapshot:
            asked.append("snapshot")
            return super().snapshot(attempt)

        def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
            asked.append("look_up")
            return super().look_up(task_id, workflow_id)

    polled = scene.start()
    execution = replace(scene.execution(polled.attempt, writing(x=b"2")), conductor=Counting(scene.conductor))
    assert transaction.run(execution, polled.input).status is TaskStatus.COMPLETED
    assert asked == ["snapshot", "snapshot"]


def test_a_foreign_head_between_reading_and_relocating_is_seen(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"abandoned"})
    tap = scene.tap
    tap.before["interrupt_updates"] = once(lambda: _move(scene))
    outcome = scene.run(scene.start(), writing(x=b"2"), tap)
    assert outcome.status is TaskStatus.FAILED
    assert "moved while this attempt was about to publish" in str(outcome.reason)
    assert scene.content(scene.head().id)["in/x"] == b"of another writer"


def _move(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"of another writer"})


def _branch(scene: AttemptScene, name: str) -> BranchName:
    scene.lake.create_branch(scene.repository, BranchName(name), scene.a)
    return BranchName(name)


def test_the_repository_must_exist(scene: AttemptScene) -> None:
    polled = scene.start()
    elsewhere = {**polled.input["workspace"], "repository": Repository("no-such-repository")}
    outcome = transaction.run(
        scene.execution(polled.attempt, writing(x=b"2"), Tap(scene.lake)), {"workspace": elsewhere, "params": {}}
    )
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith("repository no-such-repository does not exist in lakeFS; ")
