"""An attempt that fails its post checks is kept where nothing can be published from, and fails as it would without."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.attempt.test_transaction import BranchWorkspace, fails
from tests.support.attempts import AttemptScene, Workspaces, raising, writing
from tests.support.recording import RecordingTap, RecordingTask

from perago import events
from perago.attempt import branch_gc, cancellation, kept_gc, transaction
from perago.attempt.execution import KeepFailed
from perago.attempt.target_branch import find_staging_names
from perago.conductor.port import Polled
from perago.errors import LakeUnavailable, LakeUnknown, PostGuardrailViolation, TaskStatus
from perago.events import Effect, Phase
from perago.model import BranchName, ExecutionId, Outcome, UncheckedFill, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask, DictWorkspace, workspace_input
from perago.operate.protocol_check.scene import ref_of
from perago.protocol import commit_labels, kept_labels, kept_names
from perago.workspace import local_workspace, options

NOW = 1_800_000_000.0
HOUR = KeepFailed(3600, "/in", "kept for 1h: perago inspect T", now=lambda: NOW)
VIOLATION = "post guardrail require_file('z') found no such file"
NOT_KEPT = "the attempt that failed its checks is not kept"


def refused(run: Callable[[Any], object], *, read_only: bool = False) -> RecordingTask:
    return RecordingTask(run, read_only, post=fails(PostGuardrailViolation(VIOLATION)))


def attempt(
    scene: AttemptScene,
    task: DictTask,
    keep: KeepFailed | None = HOUR,
    *,
    polled: Polled | None = None,
    tap: RecordingTap | None = None,
    workspaces: Workspaces | None = None,
    **changes: Any,
) -> Outcome:
    given = polled or scene.start()
    execution = replace(scene.execution(given.attempt, task, tap, workspaces), keep_failed=keep, **changes)
    return transaction.run(execution, given.input)


def branch_workspaces(scene: AttemptScene) -> Workspaces:
    class Staged(BranchWorkspace):
        def fill_unchecked(self, branch: BranchName, emit: events.Emit) -> UncheckedFill:
            del emit
            assert branch == self.branch
            return UncheckedFill(self.changed().counts)

    return lambda ref: Staged(scene.lake, ref, "in/")


def kept(scene: AttemptScene) -> list[kept_names.KeptName]:
    return list(kept_gc.names(scene.lake, scene.repository))


def not_kept(scene: AttemptScene) -> list[str | None]:
    return [one.error for one in scene.heard if isinstance(one, events.Done) and one.detail == NOT_KEPT]


def test_what_the_body_left_is_on_a_branch_of_its_own(scene: AttemptScene) -> None:
    polled = scene.start()
    outcome = attempt(scene, refused(writing(y=b"2").run), polled=polled)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == f"{VIOLATION}; kept for 1h: perago inspect T"
    assert outcome.reason_with_code == f"{VIOLATION}; kept for 1h: perago inspect T [PG-330]"
    (name,) = kept(scene)
    assert (name.task_id, name.workflow_id, name.until) == (polled.attempt.task_id, polled.attempt.workflow_id, NOW + 3600)
    made = scene.lake.head(scene.repository, name.branch)
    assert made.parents == (scene.a,)
    assert scene.content(made.id) == {"in/x": b"1", "in/y": b"2", "other": b"outside"}
    labels = kept_labels.read(made.metadata)
    assert labels is not None
    assert (labels.reason, labels.prefix, labels.input_ref, labels.branch) == (VIOLATION, "/in", scene.a, scene.branch)
    counts = commit_labels.read_counts(made.metadata)
    assert counts is not None
    assert (counts.added, counts.changed, counts.deleted) == (1, 0, 0)
    assert list(scene.lake.uncommitted(scene.repository, name.branch)) == []
    assert scene.head().id == scene.a
    assert scene.staging_branches() == []


def test_a_body_that_writes_to_the_staging_branch_is_kept_too(scene: AttemptScene) -> None:
    task = refused(lambda workspace: workspace.write("y", b"2"))
    outcome = attempt(scene, task, workspaces=branch_workspaces(scene))
    assert str(outcome.reason).endswith("; kept for 1h: perago inspect T")
    (name,) = kept(scene)
    made = scene.lake.head(scene.repository, name.branch)
    assert made.parents == (scene.a,)
    assert scene.content(made.id) == {"in/x": b"1", "in/y": b"2", "other": b"outside"}
    assert kept_labels.read(made.metadata) is not None
    assert scene.staging_branches() == []
    assert scene.head().id == scene.a


@pytest.mark.parametrize("kind", ["local", "branch"])
def test_a_body_that_changed_nothing_leaves_its_reason(scene: AttemptScene, kind: str) -> None:
    workspaces = branch_workspaces(scene) if kind == "branch" else None
    attempt(scene, refused(lambda _workspace: None), workspaces=workspaces)
    (name,) = kept(scene)
    made = scene.lake.head(scene.repository, name.branch)
    assert made.parents == (scene.a,)
    assert kept_labels.read(made.metadata) is not None


@pytest.mark.parametrize("kind", ["local", "branch"])
def test_nothing_is_kept_unless_it_is_asked_for(scene: AttemptScene, kind: str) -> None:
    task = refused(lambda workspace: workspace.write("y", b"2")) if kind == "branch" else refused(writing(y=b"2").run)
    outcome = attempt(scene, task, None, workspaces=branch_workspaces(scene) if kind == "branch" else None)
    assert outcome.reason == VIOLATION
    assert [found.name for found in scene.lake.branches(scene.repository, "perago-")] == []


def test_a_read_only_task_writes_nothing_to_lakefs(scene: AttemptScene) -> None:
    tap = scene.tap
    assert attempt(scene, refused(writing(y=b"2").run, read_only=True), tap=tap).reason == VIOLATION
    assert "create_branch" not in tap.verbs


def test_other_failures_are_not_kept(scene: AttemptScene) -> None:
    assert attempt(scene, DictTask(fails(ValueError("mine")))).status is TaskStatus.FAILED
    assert kept(scene) == []


def test_a_retry_publishes_and_keeps_its_own(scene: AttemptScene) -> None:
    first, second = scene.start(), scene.start()
    for polled in (first, second):
        attempt(scene, refused(writing(y=b"bad").run), polled=polled)
    assert {name.task_id for name in kept(scene)} == {first.attempt.task_id, second.attempt.task_id}
    tap = scene.tap
    outcome = attempt(scene, writing(y=b"good"), tap=tap)
    assert ref_of(outcome) == scene.head().id
    assert scene.content(scene.head().id)["in/y"] == b"good"
    assert scene.revoked() == []
    assert list(find_staging_names(scene.lake, scene.repository, scene.branch)) == []
    assert len(kept(scene)) == 2


@pytest.mark.parametrize("verb", ["create_branch", "write", "commit_branch"])
@pytest.mark.parametrize("error", [LakeUnavailable("lakeFS is away"), LakeUnknown("the reply was lost")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attempt_that_cannot_be_kept_fails_with_its_own_reason(
    scene: AttemptScene, verb: str, error: Exception, when: str
) -> None:
    tap = scene.tap
    getattr(tap, when)[verb] = raising(error)
    outcome = attempt(scene, refused(writing(y=b"2").run), tap=tap)
    assert outcome.reason == VIOLATION
    assert not_kept(scene) == [str(error)]
    assert kept(scene) == []


def test_a_stale_attempt_is_not_kept(scene: AttemptScene) -> None:
    polled, tap = scene.start(), scene.tap
    tap.after["objects"] = lambda: scene.conductor.expire(polled.attempt.task_id)
    outcome = attempt(scene, refused(writing(y=b"2").run), polled=polled, tap=tap)
    assert outcome.reason == VIOLATION
    assert "no longer current" in str(not_kept(scene))
    assert "create_branch" not in tap.verbs


@pytest.fixture
def local(scene: AttemptScene, tmp_path: Path) -> Callable[..., Outcome]:
    """Run a body on a real folder."""

    def run(body: Callable[[Path], object], tap: RecordingTap | None = None, **changes: Any) -> Outcome:
        polled = scene.start()

        def workspaces(ref: WorkspaceRef) -> local_workspace.LocalWorkspace:
            setup = options.WorkspaceOptions(tmp_path / "workspaces", tmp_path / "cache")
            lake: Any = tap or scene.lake
            return local_workspace.LocalWorkspace(lake, ref, "/in", polled.attempt, ExecutionId("e"), setup, scene.heard.append)

        outcome = attempt(scene, refused(body), polled=polled, tap=tap, workspaces=workspaces, **changes)
        assert list((tmp_path / "workspaces").iterdir()) == []
        return outcome

    return run


def test_what_no_branch_can_hold_is_left_out_and_named(scene: AttemptScene, local: Callable[..., Outcome]) -> None:
    def body(workspace: Path) -> None:
        (workspace / "x").unlink()
        (workspace / "x").symlink_to("y")
        (workspace / "y").write_bytes(b"2")
        (workspace / "a\ufffdb").touch()

    assert local(body).reason == f"{VIOLATION}; kept for 1h: perago inspect T"
    (name,) = kept(scene)
    made = scene.lake.head(scene.repository, name.branch)
    assert scene.content(made.id) == {"in/y": b"2", "other": b"outside"}
    labels = kept_labels.read(made.metadata)
    assert labels is not None
    assert labels.left_out == "x (symlinks), a\ufffdb"


def test_an_attempt_that_is_cancelled_meanwhile_is_not_kept(scene: AttemptScene, local: Callable[..., Outcome]) -> None:
    tap = scene.tap
    tap.before["write"] = tap.before["write_small"] = lambda: cancellation.set_reason("the worker was stopped")
    try:
        outcome = local(lambda workspace: (workspace / "y").write_bytes(b"2"), tap)
    finally:
        cancellation.set_reason(None)
    assert outcome.reason == VIOLATION
    assert not_kept(scene) == ["the attempt was cancelled: the worker was stopped"]
    assert kept(scene) == []


def test_an_upload_that_takes_longer_than_the_publish_budget_is_given_up(
    scene: AttemptScene, local: Callable[..., Outcome]
) -> None:
    clock, tap = [0.0], scene.tap
    tap.before["write"] = tap.before["write_small"] = lambda: clock.append(61.0)
    outcome = local(lambda workspace: (workspace / "y").write_bytes(b"2"), tap, clock=lambda: clock[-1])
    assert outcome.reason == VIOLATION
    assert not_kept(scene) == ["it takes longer than the publish budget of 60 s"]
    assert kept(scene) == []


def test_the_time_of_the_transfer_is_counted_as_clean_up(scene: AttemptScene, local: Callable[..., Outcome]) -> None:
    local(lambda workspace: (workspace / "y").write_bytes(b"2"))
    phases = {one.phase for one in scene.heard if isinstance(one, events.Done)}
    assert Phase.STAGE not in phases
    assert [one.error for one in scene.heard if isinstance(one, events.Done) and one.effect is Effect.KEEP_ATTEMPT] == [None]


def test_no_attempt_publishes_on_it_or_to_it(scene: AttemptScene) -> None:
    attempt(scene, refused(writing(y=b"bad").run))
    (name,) = kept(scene)
    made = scene.lake.head(scene.repository, name.branch).id
    task = writing(y=b"more")
    outcome = attempt(scene, task, polled=scene.start(made))
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert outcome.reason == f"workspace.ref {made} holds an attempt that failed its checks, from which nothing is published"
    polled = scene.start(made)
    onto = replace(polled, input=workspace_input(WorkspaceRef(scene.repository, name.branch, made)))
    outcome = attempt(scene, task, polled=onto)
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert str(outcome.reason).startswith(f"workspace.branch {name.branch} holds an attempt that failed its checks")
    assert task.calls == []
    assert scene.head().id == scene.a
    reads = attempt(scene, replace(writing(), read_only=True), polled=scene.start(made))
    assert ref_of(reads) == made


def test_its_time_decides_about_its_deletion(scene: AttemptScene) -> None:
    attempt(scene, refused(writing(y=b"2").run))
    attempt(scene, refused(writing(y=b"3").run), replace(HOUR, seconds=10))
    short, long = kept(scene)
    assert [one.orphaned for one in kept_gc.find(scene.lake, scene.repository, now=NOW + 9.9)] == [None, None]
    found = kept_gc.find(scene.lake, scene.repository, now=NOW + 10)
    assert [(one.branch, one.orphaned) for one in found] == [(short.branch, "its time is over"), (long.branch, None)]
    deleted = list(branch_gc.delete(scene.lake, scene.repository, found))
    assert [one.is_deleted for one in deleted] == [True, False]
    assert kept(scene) == [long]


def test_the_hint_is_left_out_where_the_reason_has_no_room_for_it(memory: AttemptScene) -> None:
    outcome = attempt(memory, refused(writing(y=b"2").run), reason_max_length=50)
    assert outcome.reason == VIOLATION[:40] + "…"
    long = RecordingTask(writing(y=b"2").run, post=fails(PostGuardrailViolation("v" * 900)))
    outcome = attempt(memory, long)
    assert outcome.reason_with_code is not None
    assert len(outcome.reason_with_code) == 500
    assert outcome.reason_with_code.endswith("…; kept for 1h: perago inspect T [PG-330]")


def test_a_workspace_without_a_disk_is_kept_like_any_other(memory: AttemptScene) -> None:
    workspace = DictWorkspace(memory.lake, memory.target(), "in/")
    workspace.open()
    workspace.files["new"] = b"1"
    name = BranchName("perago-failed-test")
    memory.lake.create_branch(memory.repository, name, memory.a)
    assert workspace.fill_unchecked(name, events.ignore).counts.added == 1
