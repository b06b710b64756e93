"""Runs one attempt of a task without servers: the worker's transaction on plain files, with a Conductor in memory.

The result has the outcome that Conductor would get, and the changes that would be published.
"""

import atexit
import contextlib
import functools
import os
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago import events
from perago import settings as local_settings
from perago.attempt import declared_task, port, transaction
from perago.attempt.execution import Execution
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import SetupError, TaskStatus, WorkspaceError
from perago.in_memory import conductor, lake
from perago.local_run import changes, exception_recorder, folder_lake
from perago.model import FilePath, ObjectPath, Outcome, TaskType, WorkerId, WorkspaceRef
from perago.protocol import staging_names as protocol_names
from perago.spark import engine
from perago.spark import options as spark_options
from perago.spark.local_folder import SparkFolderWorkspace
from perago.spark.session import SparkEngine
from perago.workspace import options, path_mapping, scan
from perago.workspace.local_workspace import LocalWorkspace


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One attempt without servers. Paths in it are gone when the context that made it ends."""

    outcome: Outcome
    changes: tuple[changes.FileChange, ...]
    files: Mapping[FilePath, folder_lake.Stored]
    """What the prefix holds afterwards: with the changes if it completed, as given if not."""
    error: BaseException | None
    """What the task, its checks or its workspace raised, where the outcome is a failure."""


@contextlib.contextmanager
def run(
    declaration: TaskDeclaration, files: Mapping[FilePath, Path], params: object, emit: events.Emit = events.ignore
) -> Generator[LocalRun]:
    """Run one attempt on a copy of `files`. A task without a workspace gets none of them."""
    with tempfile.TemporaryDirectory(prefix="perago-run-", ignore_cleanup_errors=True) as directory:
        store = _store(declaration, files, Path(directory))
        recorder = exception_recorder.ExceptionRecorder()
        with _same_directory():
            outcome = _attempt(declaration, store, params, Path(directory), recorder, emit)
        if isinstance(recorder.error, KeyboardInterrupt):
            # A worker reports it as a failure; here Ctrl-C ends the whole run.
            raise recorder.error
        error = None if outcome.status is TaskStatus.COMPLETED else recorder.error
        yield _local_run(declaration, store, outcome, error)


def files_of(root: Path) -> dict[FilePath, Path]:
    """The business files of a folder; `SetupError` for what no workspace can hold."""
    try:
        found = scan.scan(str(root))
    except WorkspaceError as error:
        raise SetupError(f"{root}: {error}") from error
    if found.special_files:
        special = found.special_files[0]
        raise SetupError(
            f"{root} holds {special.kind}, which a workspace cannot: {special.path}; copy the files themselves into it"
        )
    return {path: root / path for path in found.files}


def _store(declaration: TaskDeclaration, files: Mapping[FilePath, Path], directory: Path) -> folder_lake.FolderLake:
    (directory / "store").mkdir()
    prefix = _prefix(declaration)
    try:
        return folder_lake.FolderLake(
            {path_mapping.to_object(prefix, path): at for path, at in files.items()}, directory / "store"
        )
    except (WorkspaceError, OSError) as error:
        raise SetupError(f"the workspace cannot be copied: {error}") from error


def _attempt(
    declaration: TaskDeclaration,
    store: folder_lake.FolderLake,
    params: object,
    directory: Path,
    recorder: exception_recorder.ExceptionRecorder,
    emit: events.Emit,
) -> Outcome:
    server = conductor.FakeConductor()
    polled = _polled(server, declaration, _input(declaration, store, params))
    execution_id = protocol_names.execution_id(time.time(), os.urandom(8))

    def workspaces(ref: WorkspaceRef) -> port.AttemptWorkspace:
        settings = options.WorkspaceOptions(directory / "workspaces", cache_bytes=0)
        made = _WORKSPACES[declaration.kind](store, ref, _prefix(declaration), polled.attempt, execution_id, settings, emit)
        return recorder.wrap(made)

    task = recorder.wrap(declared_task.DeclaredTask(declaration))
    execution = Execution(polled.attempt, execution_id, task, store, DirectFence(server), workspaces, emit=emit)
    return transaction.run(execution, polled.input)


@functools.cache
def _spark() -> SparkEngine:
    """One for all runs of this process, because starting Spark takes longer than most of them."""
    scratch = local_settings.user_directory() / "spark"
    local_settings.require_private(scratch)
    made = engine.make(spark_options.SparkOptions(scratch))
    atexit.register(made.close)
    return made


def _spark_folder(*args: Any) -> port.AttemptWorkspace:
    return SparkFolderWorkspace(*args, engine=_spark())


_WORKSPACES: Mapping[WorkspaceKind, Callable[..., port.AttemptWorkspace]] = {
    WorkspaceKind.LOCAL: LocalWorkspace,
    WorkspaceKind.NONE: LocalWorkspace,
    WorkspaceKind.SPARK: _spark_folder,
}
"""The class that provides the workspace argument of each kind of task."""


def _polled(server: conductor.FakeConductor, declaration: TaskDeclaration, task_input: Mapping[str, Any]) -> Polled:
    task_type = TaskType(declaration.name)
    server.start([conductor.WorkflowStep(task_type, declaration.name, task_input)])
    polled = server.poll(task_type, WorkerId("local"), wait_seconds=0)
    if polled is None:
        raise AssertionError("a task that was just scheduled is there to be polled")
    return polled


def _input(declaration: TaskDeclaration, store: folder_lake.FolderLake, params: object) -> dict[str, Any]:
    if declaration.workspace is None:
        return {"params": params}
    return {"workspace": WorkspaceRef(folder_lake.REPOSITORY, lake.MAIN, store.start).as_json(), "params": params}


def _local_run(
    declaration: TaskDeclaration, store: folder_lake.FolderLake, outcome: Outcome, error: BaseException | None
) -> LocalRun:
    prefix = _prefix(declaration)
    given, published = store.given(), store.published()
    files = {_local(prefix, path): held for path, held in published.items()}
    return LocalRun(outcome, changes.between(given, published, prefix), files, error)


def _prefix(declaration: TaskDeclaration) -> str:
    return path_mapping.listing_prefix(declaration.workspace.prefix) if declaration.workspace else ""


def _local(prefix: str, path: ObjectPath) -> FilePath:
    return FilePath(path.removeprefix(prefix))


@contextlib.contextmanager
def _same_directory() -> Generator[None]:
    """Restore the working directory, which a body may change."""
    before = Path.cwd()
    try:
        yield
    finally:
        os.chdir(before)
