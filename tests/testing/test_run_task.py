"""`perago.testing` for task authors: the result of a run for success, failure and changes."""

import os
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel, Field, computed_field

from perago import (
    PostGuardrailViolation,
    PreGuardrailViolation,
    TaskDefinitionError,
    TaskFailed,
    TaskInputError,
    TaskTerminalError,
    WorkspaceSpec,
    forbid_glob,
    require_glob,
    task,
)
from perago.errors import SetupError, WorkspaceError
from perago.testing import TaskRun, run_task


class Params(BaseModel):
    do: str = "work"
    limit: Decimal = Field(default=Decimal(1), alias="the-limit")

    @computed_field
    def shout(self) -> str:
        return self.do.upper()


class Output(BaseModel):
    files: int


RAISED = {
    "fail": TaskFailed("later perhaps"),
    "never": TaskTerminalError("no use"),
    "exit": SystemExit(3),
    "stop": KeyboardInterrupt(),
}


@task(
    name="t.work",
    owner_email="a@example.com",
    workspace=WorkspaceSpec(prefix="/deep/er", pre=[require_glob("in/*")], post=[forbid_glob("**/*.tmp")]),
)
def work(workspace: Path, params: Params) -> Output:
    if params.do in RAISED:
        raise RAISED[params.do]
    match params.do:
        case "bug":
            return {}["nothing"]
        case "lie":
            return {"files": "many"}  # pyright: ignore[reportReturnType]
        case "mess":
            (workspace / "x.tmp").touch()
        case "link":
            (workspace / "link").symlink_to("in")
        case "move":
            os.chdir(workspace)
        case "nothing":
            pass
        case _:
            (workspace / "in" / "a").write_text("one\ntwo\n")
            (workspace / "in" / "b").unlink()
            (workspace / "new").mkdir()
            (workspace / "new" / "c").write_bytes(b"\0\1")
    return Output(files=len(list(workspace.iterdir())))


FILES = {"in/a": "one\n", "in/b": b"bytes", "in/same": ""}


def run(do: str) -> TaskRun:
    return run_task(work, files=FILES, params={"do": do})


def test_success_has_result_changes_and_files() -> None:
    done = run("work")
    assert done.ok, done.report()
    assert done.status == "COMPLETED"
    assert done.result == {"files": 2}
    assert done.output is not None
    assert set(done.output) == {"workspace", "result"}
    assert (done.added, done.changed, done.deleted) == (["new/c"], ["in/a"], ["in/b"])
    assert done.files == {"in/a": b"one\ntwo\n", "in/same": b"", "new/c": b"\0\1"}
    assert done.text("in/a") == "one\ntwo\n"
    assert (done.reason, done.error, done.log) == ("", None, ())


def test_doing_nothing_publishes_nothing() -> None:
    done = run("nothing")
    assert done.ok
    assert done.added == done.changed == done.deleted == []
    assert done.files == {"in/a": b"one\n", "in/b": b"bytes", "in/same": b""}


@pytest.mark.parametrize(
    ("do", "status", "error", "reason"),
    [
        ("fail", "FAILED", TaskFailed, "later perhaps"),
        ("never", "FAILED_WITH_TERMINAL_ERROR", TaskTerminalError, "no use"),
        ("bug", "FAILED", KeyError, "KeyError: 'nothing' (test_run_task.py:"),
        ("lie", "FAILED", None, "result does not satisfy the contract: result.files:"),
        ("mess", "FAILED", PostGuardrailViolation, "post guardrail forbid_glob('**/*.tmp') matched 1 file: x.tmp"),
        ("link", "FAILED", WorkspaceError, "workspace publication does not support symlinks: link"),
        ("exit", "FAILED", SystemExit, "SystemExit: 3"),
    ],
)
def test_a_failure_has_status_reason_and_error(do: str, status: str, error: type[BaseException] | None, reason: str) -> None:
    done = run(do)
    assert done.status == status
    assert reason in done.reason
    assert done.result is None
    assert done.output is None
    assert done.error is not None
    assert error is None or isinstance(done.error, error)
    assert done.added == done.changed == done.deleted == []
    assert done.files["in/a"] == b"one\n"


def test_pre_checks_and_params_fail_before_the_body() -> None:
    done = run_task(work, files={}, params={})
    assert done.status == "FAILED_WITH_TERMINAL_ERROR"
    assert done.reason == "pre guardrail require_glob('in/*') matched 0 files; min_count=1"
    assert isinstance(done.error, PreGuardrailViolation)
    done = run_task(work, files=FILES, params={"do": 5, "other": 1})
    assert done.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "params.do: " in done.reason
    assert "params.other: unknown field" in done.reason
    assert isinstance(done.error, TaskInputError)


def test_the_report_tells_a_person_everything() -> None:
    lines = run("bug").report().splitlines()
    assert lines[0] == "t.work: FAILED"
    assert lines[1].startswith("reason: KeyError: 'nothing'")
    assert any("in work" in line for line in lines)
    lines = run("work").report().splitlines()
    assert lines[:3] == ["t.work: COMPLETED", "result: {'files': 2}", "+ new/c"]
    assert "    +two" in lines
    assert "- in/b" in lines


def test_a_missing_file_is_named_with_what_is_there() -> None:
    with pytest.raises(KeyError, match=r"no file 'zzz'.*in/same"):
        run("nothing").text("zzz")


def test_params_may_be_the_model() -> None:
    assert run_task(work, files=FILES, params=Params.model_validate({"do": "nothing", "the-limit": "2.5"})).ok


def test_the_workspace_may_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("one\n")
    (tmp_path / "in" / "b").write_text("b")
    done = run_task(work, files=tmp_path)
    assert done.changed == ["in/a"]
    assert (tmp_path / "in" / "a").read_text() == "one\n"
    assert (tmp_path / "in" / "b").exists()


def test_the_task_may_be_named_by_its_module() -> None:
    assert run_task(sys.modules[__name__].work, files=FILES).ok
    module = ModuleType("pure_module")
    exec(PURE, vars(module))
    done = run_task(module, params={"n": 2})
    assert done.result == {"n": 4}
    assert done.output == {"result": {"n": 4}}
    assert done.files == {}


PURE = """
from pydantic import BaseModel
from perago import task

class P(BaseModel):
    n: int

@task(name="t.pure", owner_email="a@example.com")
def pure(params: P) -> P:
    return P(n=params.n * 2)
"""


def test_a_value_that_is_no_task_is_refused() -> None:
    with pytest.raises(TaskDefinitionError, match="is not a task; pass a function with @task"):
        run_task(len)
    with pytest.raises(TaskDefinitionError, match="declares no task"):
        run_task(ModuleType("bare"))
    with pytest.raises(TaskDefinitionError, match="no module 'nowhere_at_all'"):
        run_task("nowhere_at_all")


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    module = ModuleType("pure_module")
    exec(PURE, vars(module))
    with pytest.raises(SetupError, match="has no workspace; leave files out"):
        run_task(module, files={"a": ""}, params={"n": 1})
    with pytest.raises(SetupError, match=r"'\.\./a'"):
        run_task(work, files={"../a": ""})
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(SetupError, match="holds symlinks, which a workspace cannot: link"):
        run_task(work, files=tmp_path)
    with pytest.raises(SetupError, match="missing"):
        run_task(work, files=tmp_path / "missing")


def test_ctrl_c_ends_the_tests_and_not_only_the_attempt() -> None:
    with pytest.raises(KeyboardInterrupt):
        run("stop")


def test_nothing_is_left_behind_and_the_directory_is_the_one_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    here = Path.cwd()
    for do in ("work", "move", "bug", "link"):
        run(do)
        assert Path.cwd() == here
    assert list(tmp_path.iterdir()) == []


def test_read_only_tasks() -> None:
    @task(name="t.look", owner_email="a@example.com", workspace=WorkspaceSpec(read_only=True))
    def look(workspace: Path, params: Params) -> Output:
        (workspace / "scratch").touch()
        return Output(files=1)

    done = run_task(look, files=FILES)
    assert done.ok
    assert done.added == []


@task(name="t.relative", owner_email="a@example.com", workspace=WorkspaceSpec())
def relative(workspace: Path, params: Params) -> Output:
    assert Path.cwd() == workspace.resolve()
    Path("out.csv").write_text("1")
    return Output(files=1)


@task(name="t.free", owner_email="a@example.com")
def free(params: Params) -> Output:
    Path("lost.csv").write_text("1")
    return Output(files=len(list(Path.cwd().iterdir())))


def test_the_working_directory_is_the_workspace_or_a_scratch_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    before, entries = Path.cwd(), sys.path[:]
    done = run_task(relative, files={"a": "b"})
    assert (done.ok, done.added, done.warnings) == (True, ["out.csv"], ())
    lost = run_task(free)
    assert lost.result == {"files": 1}
    (warning,) = lost.warnings
    assert "which are not published: lost.csv; return what is needed in the result" in warning
    assert f"warning: {warning}" in lost.report()
    assert (Path.cwd(), sys.path) == (before, entries)
    assert not Path("lost.csv").exists()
