"""A declared task in a whole transaction on a local workspace: contract, checks, body, result and publication together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.attempts import AttemptScene

from perago import PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, forbid_glob, require_glob, task
from perago.attempt import declared_task, transaction
from perago.attempt.execution import Execution
from perago.declare.task import TaskDeclaration, declaration_of
from perago.errors import TaskStatus
from perago.model import Outcome, WorkspaceRef
from perago.operate.protocol_check.scene import ref_of
from perago.protocol.budget import DEFAULT, Budget
from perago.workspace import local_workspace, options

BUDGET = PublishBudget(
    observed_merge_p99_seconds=2,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=4,
    conductor_completion_timeout_seconds=5,
    worker_shutdown_grace_seconds=6,
    heartbeat_interval_seconds=7,
)


class Params(BaseModel):
    text: str


class Output(BaseModel):
    length: int


def declare(body: Callable[..., Any], *, controls: TaskControls | None = None, **spec: Any) -> TaskDeclaration:
    def build(workspace: Path, params: Params) -> Output:
        return body(workspace, params)

    made = task(name="build", owner_email="a@example.com", workspace=WorkspaceSpec(prefix="/in", **spec), controls=controls)(
        build
    )
    found = declaration_of(made)
    assert found is not None
    return found


def attempt(scene: AttemptScene, root: Path, declaration: TaskDeclaration, params: object) -> Outcome:
    polled = scene.start()
    execution = scene.execution(polled.attempt, declared_task.DeclaredTask(declaration))
    settings = options.WorkspaceOptions(root, cache_bytes=0)

    def workspaces(ref: WorkspaceRef) -> local_workspace.LocalWorkspace:
        return local_workspace.LocalWorkspace(scene.lake, ref, "/in", polled.attempt, execution.id, settings)

    walked = Execution(polled.attempt, execution.id, execution.task, scene.lake, execution.conductor, workspaces)
    outcome = transaction.run(walked, {**polled.input, "params": params})
    assert scene.staging_branches() == []
    assert [path for path in root.iterdir() if not path.name.startswith(".")] == []
    return outcome


def write(workspace: Path, params: Params) -> Output:
    (workspace / "out.txt").write_text(params.text)
    return Output(length=len(params.text))


def test_a_task_from_input_to_output(scene: AttemptScene, tmp_path: Path) -> None:
    declaration = declare(write, pre=[require_glob("x")], post=[require_glob("out.*")])
    outcome = attempt(scene, tmp_path, declaration, {"text": "four"})
    assert outcome.output is not None, outcome.reason
    assert outcome.output["result"] == {"length": 4}
    assert scene.content(ref_of(outcome)) == {"in/x": b"1", "in/out.txt": b"four", "other": b"outside"}


def test_a_deleted_file_is_deleted_under_the_prefix_only(scene: AttemptScene, tmp_path: Path) -> None:
    def remove(workspace: Path, _params: Params) -> dict[str, int]:
        (workspace / "x").unlink()
        return {"length": 0}

    outcome = attempt(scene, tmp_path, declare(remove), {"text": ""})
    assert scene.content(ref_of(outcome)) == {"other": b"outside"}


@pytest.mark.parametrize(
    ("declaration", "params", "status", "reason"),
    [
        (declare(write), {"text": 1}, TaskStatus.FAILED_WITH_TERMINAL_ERROR, "params.text"),
        (declare(write), {"text": "a", "more": 1}, TaskStatus.FAILED_WITH_TERMINAL_ERROR, "params.more"),
        (
            declare(write, pre=[require_glob("raw/**/*.parquet")]),
            {"text": "a"},
            TaskStatus.FAILED_WITH_TERMINAL_ERROR,
            "pre guardrail require_glob('raw/**/*.parquet') matched 0 files; min_count=1",
        ),
        (declare(write, post=[forbid_glob("*.txt")]), {"text": "a"}, TaskStatus.FAILED, "post guardrail forbid_glob('*.txt')"),
        (declare(lambda _workspace, _params: {"size": 1}), {"text": "a"}, TaskStatus.FAILED, "result.length"),
        (
            declare(lambda workspace, _params: (workspace / "no").read_text()),
            {"text": "a"},
            TaskStatus.FAILED,
            "FileNotFoundError",
        ),
    ],
)
def test_a_failure_is_reported_with_its_reason_and_publishes_nothing(
    scene: AttemptScene, tmp_path: Path, declaration: TaskDeclaration, params: object, status: TaskStatus, reason: str
) -> None:
    outcome = attempt(scene, tmp_path, declaration, params)
    assert outcome.status is status
    assert reason in str(outcome.reason)
    assert outcome.output is None
    assert scene.head().id == scene.a


def test_read_only_discards_what_the_body_wrote(scene: AttemptScene, tmp_path: Path) -> None:
    outcome = attempt(scene, tmp_path, declare(write, read_only=True), {"text": "gone"})
    assert ref_of(outcome) == scene.a
    assert scene.head().id == scene.a


def test_the_budget_is_the_declared_one_or_the_default_within_the_response_timeout() -> None:
    assert declared_task.budget(declare(write, controls=TaskControls(publish_budget=BUDGET))) == Budget(4, 5, 6, 7)
    assert declared_task.budget(declare(write)) == DEFAULT
    short = declared_task.budget(declare(write, controls=TaskControls(timeout=TimeoutPolicy(response_seconds=27))))
    assert short.response_timeout_seconds == pytest.approx(27)
    assert declared_task.budget(declare(write, read_only=True, controls=TaskControls(publish_budget=BUDGET))) == DEFAULT
