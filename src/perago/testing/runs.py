"""`run_task` runs a task on files and params without servers; its `TaskRun` has the result and changes, or the failure."""

import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from perago.declare import module_loader
from perago.declare.task import TaskDeclaration, declaration_of
from perago.errors import SetupError, TaskDefinitionError, TaskStatus
from perago.local_run import environment
from perago.local_run.changes import ChangeKind, FileChange, unified
from perago.local_run.table_changes import TableChange
from perago.model import FilePath

Files = Mapping[str, bytes | str] | Path
_LINES_OF_A_FILE = 20


@dataclass(frozen=True, slots=True)
class TaskRun:
    """How one attempt ended and what it would have published."""

    task: str
    status: TaskStatus
    """Reported to Conductor: `COMPLETED`, `FAILED` or `FAILED_WITH_TERMINAL_ERROR`; can be compared with a string."""
    output: Mapping[str, Any] | None
    """Conductor's output, None unless completed."""
    reason: str
    """The line that Conductor shows for a failure; empty if completed."""
    error: BaseException | None = field(repr=False)
    """What the body, a check, the contract or the workspace raised."""
    log: tuple[str, ...] = field(repr=False)
    """The lines for Conductor's task log: the traceback of a failure."""
    added: list[str]
    changed: list[str]
    deleted: list[str]
    files: Mapping[str, bytes] = field(repr=False)
    """The whole workspace as the next task finds it: with the changes if completed, as given if not."""
    warnings: tuple[str, ...] = field(repr=False)
    """What the body left behind: files outside its workspace that are not published, another working directory."""
    differences: Mapping[str, list[str]] = field(repr=False)
    """Unified diff lines of each small text file that was added or changed."""
    tables: tuple[TableChange, ...] = field(repr=False)
    """Rows, columns and files, before and after, of each table among the changes."""

    @property
    def ok(self) -> bool:
        return self.status is TaskStatus.COMPLETED

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The result as Conductor's JSON, None unless completed."""
        return None if self.output is None else self.output["result"]

    def text(self, path: str) -> str:
        """A file of the published workspace as text."""
        return text_of(self.files, path)

    def report(self) -> str:
        """The run as text: status, reason, log, result and changes; for `assert run.ok, run.report()`."""
        return "\n".join(self._lines())

    def _lines(self) -> Generator[str]:
        yield f"{self.task}: {self.status}"
        if self.reason:
            yield f"reason: {self.reason}"
        yield from self.log
        yield from (f"warning: {line}" for line in self.warnings)
        if self.output is not None:
            yield f"result: {self.result}"
        yield from change_lines(self.added, self.changed, self.deleted, self.differences)


def run_task(
    task: Callable[..., object] | ModuleType | str,
    *,
    files: Files | None = None,
    params: Mapping[str, Any] | BaseModel | None = None,
) -> TaskRun:
    """Run one attempt of a task without servers and return how it ended; a failure of the task is not raised.

    `task` is the decorated function, a command task, its module, the module's name, or the path of a task file. `files` is
    the input workspace: contents by path, or a folder, which is copied and never changed. `params` is what Conductor would
    send, or an instance of the params model.

    The task runs in this process, so that debuggers and monkeypatching work. As in the worker its working directory is its
    workspace, which is not safe while other threads of this process use relative paths. Time limits do not count, and a body
    that crashes ends this process; `perago run` runs the task in a process of its own.
    """
    declaration = _declaration(task)
    if files is not None and declaration.workspace is None:
        raise SetupError(f"task {declaration.name!r} has no workspace; leave files out")
    with on_disk(files) as found, environment.run(declaration, found, as_json(params)) as done:
        return task_run(declaration.name, done)


def _declaration(task: Callable[..., object] | ModuleType | str) -> TaskDeclaration:
    if isinstance(task, str):
        return module_loader.load(task)
    if isinstance(task, ModuleType):
        return module_loader.only_task(task)
    declaration = declaration_of(task)
    if declaration is None:
        raise TaskDefinitionError(f"{task!r} is not a task; pass a function with @task on it, its module, or the module's name")
    return declaration


@contextmanager
def on_disk(files: Files | None) -> Generator[dict[FilePath, Path]]:
    if isinstance(files, Path):
        yield environment.files_of(files)
        return
    with tempfile.TemporaryDirectory(prefix="perago-test-") as directory:
        yield {
            FilePath(path): _written(Path(directory) / str(number), content)
            for number, (path, content) in enumerate((files or {}).items())
        }


def _written(at: Path, content: bytes | str) -> Path:
    at.write_bytes(content.encode() if isinstance(content, str) else content)
    return at


def as_json(params: Mapping[str, Any] | BaseModel | None) -> object:
    if isinstance(params, BaseModel):
        return params.model_dump(mode="json", by_alias=True, round_trip=True)
    return dict(params or {})


def text_of(files: Mapping[str, bytes], path: str) -> str:
    if path not in files:
        raise KeyError(f"no file {path!r} in the workspace; it contains: {', '.join(files) or 'nothing'}")
    return files[path].decode()


def change_lines(
    added: list[str], changed: list[str], deleted: list[str], differences: Mapping[str, list[str]]
) -> Generator[str]:
    for sign, names in (("+", added), ("~", changed), ("-", deleted)):
        for path in names:
            yield f"{sign} {path}"
            yield from (f"    {line}" for line in differences.get(path, [])[:_LINES_OF_A_FILE])


def task_run(task: str, done: environment.LocalRun, read: Callable[[Path], bytes] = Path.read_bytes) -> TaskRun:
    outcome = done.outcome
    return TaskRun(
        task=task,
        status=outcome.status,
        output=outcome.output,
        reason=outcome.reason or "",
        error=done.error,
        log=outcome.log,
        warnings=done.warnings,
        added=paths(done.changes, ChangeKind.ADDED),
        changed=paths(done.changes, ChangeKind.CHANGED),
        deleted=paths(done.changes, ChangeKind.DELETED),
        files={path: read(held.at) for path, held in done.files.items()},
        differences={change.path: unified(change) or [] for change in done.changes if change.after is not None},
        tables=done.tables,
    )


def paths(changes: tuple[FileChange, ...], kind: ChangeKind) -> list[str]:
    return [change.path for change in changes if change.kind is kind]
