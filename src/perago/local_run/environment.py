"""Runs one attempt of a task without servers: the worker's transaction on plain files, with a Conductor in memory.

The result has the outcome that Conductor would get, and the changes that would be published. `run` is for `perago.testing`;
`perago run` calls `attempt` in a process of its own.
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
from perago.in_memory.conductor_rows import WorkflowStep
from perago.local_run import changes, exception_recorder, folder_lake
from perago.model import FilePath, ObjectPath, Outcome, TaskType, WorkerId, WorkspaceRef
from perago.protocol import staging_names as protocol_names
from perago.spark import engine
from perago.spark import options as spark_options
from perago.spark.local_folder import SparkFolderWorkspace
from perago.spark.session import SparkEngine
from perago.workspace import attempt_directory, options, path_mapping, scan, working_directory
from perago.workspace.local_workspace import LocalWorkspace


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One attempt without servers. Paths in it are gone when the context that made it ends."""

    outcome: Outcome
    given: Mapping[ObjectPath, folder_lake.Stored]
    published: Mapping[ObjectPath, folder_lake.Stored]
    prefix: str
    """As in object names: ends in `/` or is empty."""
    error: BaseException | None
    """What the task, its checks or its workspace raised, where the outcome is a failure."""
    warnings: tuple[str, ...] = ()
    """What the body left behind, one line each."""

    @property
    def changes(self) -> tuple[changes.FileChange, ...]:
        return changes.between(self.given, self.published, self.prefix)

    @property
    def files(self) -> dict[FilePath, folder_lake.Stored]:
        """What the prefix holds afterwards: with the changes if it completed, as given if not."""
        return {FilePath(path.removeprefix(self.prefix)): held for path, held in self.published.items()}


AroundBody = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process of a run provides for it."""

    spark: Callable[[], SparkEngine]
    emit: events.Emit = events.ignore
    around_body: AroundBody = contextlib.nullcontext


@contextlib.contextmanager
def run(declaration: TaskDeclaration, files: Mapping[FilePath, Path], params: object) -> Generator[LocalRun]:
    """Run one attempt in this process on a copy of `files`. A task without a workspace gets none of them."""
    with tempfile.TemporaryDirectory(prefix="perago-run-", ignore_cleanup_errors=True) as directory:
        done = attempt(declaration, files, params, Path(directory), Surroundings(_spark))
        if isinstance(done.error, KeyboardInterrupt):
            # A worker reports it as a failure; here Ctrl-C ends the whole run.
            raise done.error
        yield done


def attempt(
    declaration: TaskDeclaration,
    files: Mapping[FilePath, Path],
    params: object,
    directory: Path,
    surroundings: Surroundings,
) -> LocalRun:
    """Run one attempt; the files of the result are in `directory`, which exists and is empty."""
    store = _store(declaration, files, directory)
    recorder, warnings = exception_recorder.ExceptionRecorder(), list[str]()
    outcome = _attempt(declaration, store, params, directory, recorder, surroundings, warnings.append)
    error = None if outcome.status is TaskStatus.COMPLETED else recorder.error
    return LocalRun(outcome, store.given(), store.published(), object_prefix(declaration), error, tuple(warnings))


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
    prefix = object_prefix(declaration)
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
    surroundings: Surroundings,
    warn: working_directory.Warn,
) -> Outcome:
    server = conductor.FakeConductor()
    polled = _polled(server, declaration, _input(declaration, store, params))
    execution_id = protocol_names.execution_id(time.time(), os.urandom(8))

    settings = options.WorkspaceOptions(directory / "workspaces", cache_bytes=0)

    def workspaces(ref: WorkspaceRef) -> port.AttemptWorkspace:
        arguments = (store, ref, object_prefix(declaration), polled.attempt, execution_id, settings, surroundings.emit)
        is_spark = declaration.kind is WorkspaceKind.SPARK
        return recorder.wrap(
            SparkFolderWorkspace(*arguments, engine=surroundings.spark()) if is_spark else LocalWorkspace(*arguments)
        )

    @contextlib.contextmanager
    def around_body(argument: object) -> Generator[None]:
        def scratch() -> attempt_directory.AttemptDirectory:
            return attempt_directory.create(directory / "scratch", polled.attempt, execution_id)

        with working_directory.for_body(argument, scratch, warn), surroundings.around_body():
            yield

    task = recorder.wrap(declared_task.DeclaredTask(declaration, around_body))
    emit = surroundings.emit
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


def _polled(server: conductor.FakeConductor, declaration: TaskDeclaration, task_input: Mapping[str, Any]) -> Polled:
    task_type = TaskType(declaration.name)
    server.start([WorkflowStep(task_type, declaration.name, task_input)])
    polled = server.poll(task_type, WorkerId("local"), wait_seconds=0)
    if polled is None:
        raise AssertionError("a task that was just scheduled is there to be polled")
    return polled


def _input(declaration: TaskDeclaration, store: folder_lake.FolderLake, params: object) -> dict[str, Any]:
    if declaration.workspace is None:
        return {"params": params}
    return {"workspace": WorkspaceRef(folder_lake.REPOSITORY, lake.MAIN, store.start).as_json(), "params": params}


def object_prefix(declaration: TaskDeclaration) -> str:
    """The prefix of the workspace as in object names; empty without one."""
    return path_mapping.listing_prefix(declaration.workspace.prefix) if declaration.workspace else ""
