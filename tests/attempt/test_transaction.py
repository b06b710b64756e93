"""The transaction of one attempt: the order of its steps, its fences, the error of each failure, and its cleanup."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.attempts import AttemptScene, once, raising, writing
from tests.support.recording import RecordingTask

from perago import events
from perago.attempt import cancellation, port, transaction
from perago.attempt.execution import Execution
from perago.conductor.direct_fence import DirectFence
from perago.errors import (
    ConductorUnavailable,
    LakeUnavailable,
    PostGuardrailViolation,
    PreGuardrailViolation,
    TaskFailed,
    TaskStatus,
    TaskTerminalError,
    WorkspaceError,
)
from perago.events import Effect
from perago.model import BranchName, Listing, TaskInput, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictChange, DictTask, DictWorkspace, Files, upload
from perago.operate.protocol_check.scene import ref_of
from perago.protocol import staging_names
from perago.workspace import local_workspace, options

FAILED, TERMINAL = TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR


def fails(error: BaseException) -> Any:
    def act(_given: object) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("task", "status", "reason"),
    [
        (RecordingTask(pre=fails(PreGuardrailViolation("pre guardrail"))), TERMINAL, "pre guardrail"),
        (DictTask(fails(TaskTerminalError("never"))), TERMINAL, "never"),
        (DictTask(fails(TaskFailed("later"))), FAILED, "later"),
        (DictTask(fails(OSError("disk"))), FAILED, "OSError: disk"),
        (DictTask(fails(SystemExit(3))), FAILED, "the body ended with SystemExit: 3"),
        (DictTask(fails(KeyboardInterrupt())), FAILED, "the body ended with KeyboardInterrupt without a message"),
        (RecordingTask(post=fails(PostGuardrailViolation("post guardrail"))), FAILED, "post guardrail"),
    ],
)
def test_failures_before_publication(memory: AttemptScene, task: DictTask, status: TaskStatus, reason: str) -> None:
    outcome = memory.run(memory.start(), task)
    assert outcome.status is status
    assert str(outcome.reason).startswith(reason)
    assert outcome.output is None
    assert memory.head().id == memory.a
    assert memory.calls["create_branch"] == 0


def test_an_input_that_does_not_satisfy_the_contract_reads_nothing(memory: AttemptScene) -> None:
    memory.calls.clear()
    outcome = transaction.run(memory.execution(memory.start().attempt, DictTask()), {"params": {}})
    assert outcome.status is TERMINAL
    assert not memory.calls


def test_the_body_does_not_run_after_a_failed_pre_check(memory: AttemptScene) -> None:
    task = RecordingTask(pre=fails(PreGuardrailViolation("no")))
    memory.run(memory.start(), task)
    assert task.calls == []


def test_checks_see_the_input_before_and_the_result_after(memory: AttemptScene) -> None:
    seen: list[Listing] = []
    task = RecordingTask(writing(y=b"2").run, pre=seen.append, post=seen.append)
    memory.run(memory.start(), task)
    assert [listing.files for listing in seen] == [["x"], ["x", "y"]]


def stale_when(scene: AttemptScene, verb: str) -> tuple[list[str], Any]:
    """The attempt is given up by Conductor just before the given request."""
    tap, polled = scene.tap, scene.start()
    tap.before[verb] = once(lambda: scene.conductor.expire(polled.attempt.task_id))
    return tap.verbs, scene.run(polled, writing(x=b"2"), tap)


def test_the_first_fence_stops_a_stale_attempt_before_it_stages(scene: AttemptScene) -> None:
    verbs, outcome = stale_when(scene, "objects")
    assert outcome.status is FAILED
    assert outcome.reason == "the attempt is no longer current in Conductor: status is TIMED_OUT, not IN_PROGRESS"
    assert "create_branch" not in verbs


@pytest.mark.parametrize("verb", ["create_branch", "write", "commit_branch", "branches"])
def test_the_second_fence_stops_a_stale_attempt_before_it_revokes_and_publishes(scene: AttemptScene, verb: str) -> None:
    verbs, outcome = stale_when(scene, verb)
    assert outcome.status is FAILED
    assert "TIMED_OUT" in str(outcome.reason)
    assert verbs[-2:] == ["branches", "delete_branch"]
    assert scene.head().id == scene.a
    assert scene.staging_branches() == []


def test_a_terminated_workflow_a_lost_lease_and_a_vanished_task_are_stale(memory: AttemptScene) -> None:
    def said(prepare: Any, lease: float = 60) -> str:
        polled = memory.start()
        prepare(polled)
        execution = memory.execution(polled.attempt, writing(x=b"2"))
        fence = DirectFence(memory.conductor, lease)
        outcome = transaction.run(_with(execution, conductor=fence), polled.input)
        assert outcome.status is FAILED
        return str(outcome.reason)

    assert "no longer current in Conductor" in said(lambda polled: memory.conductor.terminate(polled.attempt.workflow_id))
    assert "the lease expired" in said(lambda _polled: None, lease=-1)
    assert "no longer knows this task" in said(lambda polled: memory.conductor.tasks.pop(polled.attempt.task_id))
    assert memory.head().id == memory.a


def test_a_conductor_that_cannot_be_asked_stops_the_attempt(memory: AttemptScene) -> None:
    class Unreachable(DirectFence):
        def snapshot(self, attempt: Any) -> Any:
            raise ConductorUnavailable("Conductor cannot be reached")

    polled = memory.start()
    execution = _with(memory.execution(polled.attempt, writing(x=b"2")), conductor=Unreachable(memory.conductor))
    outcome = transaction.run(execution, polled.input)
    assert (outcome.status, outcome.reason) == (FAILED, "Conductor cannot be reached")
    assert memory.head().id == memory.a


def test_cleanup_that_fails_changes_no_result_and_is_reported(memory: AttemptScene) -> None:
    class Stuck(DictWorkspace):
        def close(self) -> None:
            raise OSError("device busy")

    tap: Any = memory.tap
    tap.before["delete_branch"] = raising(LakeUnavailable("gone"))
    outcome = memory.run(memory.start(), writing(x=b"2"), tap, lambda ref: Stuck(tap, ref, "in/"))
    assert outcome.status is TaskStatus.COMPLETED
    assert ref_of(outcome) == memory.head().id
    assert memory.failures() == ["failed to clean staging workspace", "failed to clean local workspace"]


def test_cleanup_that_fails_does_not_hide_why_the_attempt_failed(memory: AttemptScene) -> None:
    tap = memory.tap
    tap.before["delete_branch"] = raising(LakeUnavailable("gone"))
    tap.after["commit_branch"] = raising(LakeUnavailable("commit: lakeFS cannot be reached"))
    outcome = memory.run(memory.start(), writing(x=b"2"), tap)
    assert outcome.reason == "commit: lakeFS cannot be reached"
    assert "failed to clean staging workspace" in memory.failures()


def test_clean_up_time_is_recorded_once(memory: AttemptScene, tmp_path: Path) -> None:
    polled = memory.start()
    execution = memory.execution(polled.attempt, DictTask(read_only=True))
    settings = options.WorkspaceOptions(tmp_path, tmp_path / "cache", 1 << 20)

    def make(ref: WorkspaceRef) -> local_workspace.LocalWorkspace:
        return local_workspace.LocalWorkspace(
            memory.lake, ref, "/in", polled.attempt, execution.id, settings, memory.heard.append
        )

    assert transaction.run(_with(execution, workspaces=make), polled.input).status is TaskStatus.COMPLETED
    cleaned = [event for event in memory.heard if isinstance(event, events.Done) and event.phase is events.Phase.CLEAN_UP]
    assert [event.effect for event in cleaned] == [Effect.CLOSE_WORKSPACE]


@pytest.fixture
def cancel() -> Iterator[Callable[[], None]]:
    yield lambda: cancellation.set_reason("the worker was stopped")
    cancellation.set_reason(None)


class CancelledAt(DictWorkspace):
    """Cancels the attempt when one of its methods is called."""

    def __init__(self, method: str, cancel: Callable[[], None], *args: Any) -> None:
        super().__init__(*args)
        original = getattr(self, method)

        def called(*arguments: Any) -> Any:
            cancel()
            return original(*arguments)

        setattr(self, method, called)


@pytest.mark.parametrize(
    ("method", "checked"),
    [("open", []), ("argument", ["pre"]), ("settle", ["pre", "body"]), ("changed", ["pre", "body", "post"])],
)
def test_cancelled_attempt_stops_at_the_next_step(
    memory: AttemptScene, cancel: Callable[[], None], method: str, checked: list[str]
) -> None:
    steps: list[str] = []

    def step(name: str) -> Callable[[object], None]:
        return lambda _given: steps.append(name)

    def body(files: Files) -> None:
        steps.append("body")
        files["x"] = b"2"

    task = RecordingTask(body, pre=step("pre"), post=step("post"))
    outcome = memory.run(memory.start(), task, None, lambda ref: CancelledAt(method, cancel, memory.lake, ref, "in/"))
    assert (outcome.status, outcome.reason) == (FAILED, "the attempt was cancelled: the worker was stopped")
    assert steps == checked
    assert memory.head().id == memory.a
    assert memory.staging_branches() == []


@pytest.mark.parametrize("error", [None, ValueError("job was cancelled"), SystemExit(3)])
def test_attempt_cancelled_during_the_body_ends_as_cancelled(
    memory: AttemptScene, cancel: Callable[[], None], error: BaseException | None
) -> None:
    def body(_files: object) -> None:
        cancel()
        if error is not None:
            raise error

    task = RecordingTask(body, post=fails(AssertionError("not reached")))
    outcome = memory.run(memory.start(), task)
    assert (outcome.status, outcome.reason) == (FAILED, "the attempt was cancelled: the worker was stopped")


def test_the_workspace_is_closed_also_when_it_could_not_be_opened(memory: AttemptScene) -> None:
    closed: list[DictWorkspace] = []

    class Unopened(DictWorkspace):
        def open(self) -> None:
            raise LakeUnavailable("download")

        def close(self) -> None:
            closed.append(self)

    memory.run(memory.start(), DictTask(), None, lambda ref: Unopened(memory.lake, ref))
    assert len(closed) == 1


def test_a_revocation_that_fails_stops_the_publication(scene: AttemptScene) -> None:
    polled = scene.start()
    other = scene.execution(polled.attempt, DictTask())
    rival = staging_names.staging_branch(other.attempt, other.id, BranchName("main"))
    scene.lake.create_branch(scene.repository, rival, scene.a)
    tap = scene.tap
    tap.before["delete_branch"] = once(raising(LakeUnavailable("delete: lakeFS cannot be reached")))
    outcome = scene.run(polled, writing(x=b"2"), tap)
    assert outcome.reason == "delete: lakeFS cannot be reached"
    assert scene.head().id == scene.a
    scene.lake.delete_branch(scene.repository, rival)


class BrokenWorkspace(DictWorkspace):
    def blame(self, error: Exception) -> Exception:
        return error if isinstance(error, ValueError) else WorkspaceError("the engine died")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (OSError("connection refused"), "the engine died"),
        (ValueError("mine"), "ValueError: mine"),
        (TaskFailed("the body knows"), "the body knows"),
    ],
)
def test_what_a_body_raises_is_explained_by_a_workspace_that_knows_better(
    scene: AttemptScene, raised: Exception, reason: str
) -> None:
    tap: Any = scene.tap
    outcome = scene.run(scene.start(), DictTask(fails(raised)), tap, lambda ref: BrokenWorkspace(tap, ref, "in/"))
    assert outcome.status is FAILED
    assert str(outcome.reason).startswith(reason)
    assert any(str(raised) in line for line in outcome.log)


class BranchWorkspace(DictWorkspace):
    """As with Spark, the body writes to the staging branch directly, and nothing is downloaded or uploaded."""

    needs_branch_before_body = True
    branch: BranchName | None = None

    def attach(self, branch: BranchName) -> None:
        self.branch = branch

    def argument(self) -> Any:
        return self

    def write(self, path: str, data: bytes) -> None:
        assert self.branch is not None, "a read-only task has no branch"
        upload(self._lake, self._source.repository, self.branch, self._prefix + path, data)

    def changed(self) -> Any:
        assert self.branch is not None
        changes = list(self._lake.uncommitted(self._source.repository, self.branch))
        return DictChange({change.path: b"" for change in changes}, ())

    def fill(self, branch: BranchName) -> None:
        assert branch == self.branch


def spark_like(scene: AttemptScene, run: Any, tap: Any, *, read_only: bool = False) -> Any:
    return scene.run(scene.start(), DictTask(run, read_only), tap, lambda ref: BranchWorkspace(tap, ref, "in/"))


def test_a_body_that_writes_to_the_staging_branch_publishes_like_any_other(scene: AttemptScene) -> None:
    tap = scene.tap
    outcome = spark_like(scene, lambda workspace: workspace.write("y", b"2"), tap)
    assert ref_of(outcome) == scene.head().id
    assert scene.content(scene.head().id) == {"in/x": b"1", "in/y": b"2", "other": b"outside"}
    assert tap.verbs.index("create_branch") < tap.verbs.index("write")
    assert scene.staging_branches() == []


def test_such_a_body_that_writes_nothing_is_a_no_op(scene: AttemptScene) -> None:
    tap = scene.tap
    assert ref_of(spark_like(scene, lambda _workspace: None, tap)) == scene.a
    scene.publish({"in/x": b"abandoned"})
    tap = scene.tap
    assert ref_of(spark_like(scene, lambda _workspace: None, tap)) == scene.a
    assert scene.head().id == scene.a
    assert tap.verbs.count("create_branch") == 1
    assert "commit_branch" not in tap.verbs
    assert scene.staging_branches() == []


def test_such_a_body_gets_no_branch_where_it_may_only_read(scene: AttemptScene) -> None:
    tap = scene.tap
    assert ref_of(spark_like(scene, lambda _workspace: None, tap, read_only=True)) == scene.a
    assert "create_branch" not in tap.verbs


def test_such_a_body_that_was_revoked_is_stale(scene: AttemptScene) -> None:
    def revoked(_workspace: object) -> None:
        for name in scene.staging_branches():
            scene.lake.delete_branch(scene.repository, name)

    class Unaware(BranchWorkspace):
        def changed(self) -> Any:
            return DictChange({"x": b""}, ())

    outcome = scene.run(scene.start(), DictTask(revoked), None, lambda ref: Unaware(scene.lake, ref, "in/"))
    assert "another attempt took this one's right to publish" in str(outcome.reason)


class Unasked:
    """A Conductor that an attempt must not need."""

    def __getattr__(self, verb: str) -> Any:
        raise AssertionError(verb)


class Free(DictTask):
    def accept(self, task_input: Any) -> TaskInput:
        return TaskInput(None, task_input["params"])


def test_a_task_without_a_workspace_touches_no_lake_and_asks_nothing(memory: AttemptScene) -> None:
    execution = memory.execution(memory.start().attempt, Free(lambda _none: {"n": 1}))
    memory.calls.clear()
    outcome = transaction.run(_with(execution, conductor=Unasked()), {"params": {}})
    assert outcome.output == {"result": {"n": 1}}
    assert not memory.calls


@pytest.mark.parametrize("moved", [False, True])
def test_a_read_only_task_asks_conductor_nothing_wherever_the_branch_is(scene: AttemptScene, moved: bool) -> None:
    if moved:
        scene.publish({"in/x": b"moved"})
    polled = scene.start()
    execution = scene.execution(polled.attempt, DictTask(writing(x=b"discarded").run, read_only=True))
    outcome = transaction.run(_with(execution, conductor=Unasked()), polled.input)
    assert ref_of(outcome) == scene.a, outcome.reason
    assert scene.staging_branches() == []


@pytest.mark.parametrize("kind", ["change", "no-op", "read-only"])
def test_a_pause_stops_no_attempt(memory: AttemptScene, kind: str) -> None:
    polled = memory.start()
    memory.conductor.pause(polled.attempt.workflow_id)
    task = {"change": writing(x=b"2"), "no-op": DictTask(), "read-only": DictTask(read_only=True)}[kind]
    outcome = memory.run(polled, task)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert memory.report(polled, outcome)


def test_every_event_is_emitted_once_and_without_staging_names(memory: AttemptScene) -> None:
    memory.run(memory.start(), writing(x=b"2"))
    done = [event.effect for event in memory.heard if isinstance(event, events.Done)]
    assert done == [
        Effect.READ_TARGET_BRANCH,
        Effect.PRE_CHECKS,
        Effect.BODY,
        Effect.POST_CHECKS,
        Effect.ATTEMPT_FENCE,
        Effect.CREATE_STAGING_BRANCH,
        Effect.COMMIT,
        Effect.LIST_RIVALS,
        Effect.ATTEMPT_FENCE,
        Effect.MERGE,
        Effect.READ_MERGE_COMMIT,
        Effect.DELETE_STAGING_BRANCH,
        Effect.CLOSE_WORKSPACE,
    ]
    assert "perago-staging-" not in str(memory.heard)


def test_a_symlink_on_the_local_disk_is_refused_in_the_specified_words(real_scene: AttemptScene, tmp_path: Path) -> None:
    polled = real_scene.start()
    execution = real_scene.execution(polled.attempt, DictTask(_link))

    def workspaces(ref: WorkspaceRef) -> port.AttemptWorkspace:
        settings = options.WorkspaceOptions(tmp_path, cache_bytes=0)
        return local_workspace.LocalWorkspace(real_scene.lake, ref, "/in", polled.attempt, execution.id, settings)

    outcome = transaction.run(_with(execution, workspaces=workspaces), polled.input)
    assert outcome.status is FAILED
    assert outcome.reason == "workspace publication does not support symlinks: sub/link"
    assert real_scene.staging_branches() == []
    assert real_scene.head().id == real_scene.a


def _link(workspace: Any) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub" / "link").symlink_to("/etc/passwd")


def _with(execution: Execution, **changes: Any) -> Execution:
    return replace(execution, **changes)
