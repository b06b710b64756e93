"""Attempts without servers: the worker's transaction on one store of plain files, with a Conductor in memory."""

import contextlib
import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from perago import events
from perago.attempt import declared_task, kept_gc, port, transaction
from perago.attempt import outcome as failures
from perago.attempt.execution import Execution, KeepFailed
from perago.builtin.lane_workspace import LaneBranchesWorkspace
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import PeragoError, SetupError, TaskStatus, WorkspaceError
from perago.in_memory import conductor, lake
from perago.local_run import exception_recorder, folder_lake
from perago.model import BranchName, FilePath, Outcome, TaskType, WorkerId, WorkspaceRef
from perago.protocol import staging_names as protocol_names
from perago.spark.local_folder import SparkFolderWorkspace
from perago.spark.session import SparkEngine
from perago.workspace import options, path_mapping, working_directory
from perago.workspace.attempt_directory import AttemptDirectory
from perago.workspace.local_workspace import LocalWorkspace

_KEPT_SECONDS = 86400.0
"""In the store, which ends with the run."""

AroundBody = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process of a run provides for it."""

    spark: Callable[[], SparkEngine]
    emit: events.Emit = events.ignore
    around_body: AroundBody = contextlib.nullcontext


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """How one attempt ended."""

    outcome: Outcome
    error: BaseException | None
    """What the task, its checks or its workspace raised, where the outcome is a failure."""
    warnings: tuple[str, ...] = ()
    """What the body left behind, one line each."""
    kept: BranchName | None = None
    """The branch of the store with what the body left, if its post checks failed and that was to be kept."""

    @classmethod
    def refused(cls, error: PeragoError) -> Self:
        """It ended before it began."""
        return cls(failures.failed(error), error)


@dataclass(frozen=True, slots=True)
class LocalAttempts:
    """Attempts on one store. `directory` exists; workspaces and scratch files are made in it."""

    store: folder_lake.FolderLake
    directory: Path
    surroundings: Surroundings
    keep: bool = False
    """Whether an attempt that fails its post checks is kept in the store."""

    def run(self, declaration: TaskDeclaration, workspace: WorkspaceRef, params: object, ref: str = "") -> AttemptRun:
        """One attempt, which is not retried. A task without a workspace gets none."""
        given = {"params": params} if declaration.workspace is None else {"workspace": workspace.as_json(), "params": params}
        recorder, warnings = exception_recorder.ExceptionRecorder(), list[str]()
        server = conductor.FakeConductor()
        polled = _polled(server, declaration, ref or declaration.name, given)
        execution = self._execution(declaration, server, polled, recorder, warnings.append)
        outcome = transaction.run(execution, polled.input)
        error = None if outcome.status is TaskStatus.COMPLETED else recorder.error
        return AttemptRun(outcome, error, tuple(warnings), self._kept_by(execution))

    def _kept_by(self, execution: Execution) -> BranchName | None:
        names = kept_gc.names(self.store, folder_lake.REPOSITORY)
        return next((name.branch for name in names if name.execution_id == execution.id), None)

    def _execution(
        self,
        declaration: TaskDeclaration,
        server: conductor.FakeConductor,
        polled: Polled,
        recorder: exception_recorder.ExceptionRecorder,
        warn: working_directory.Warn,
    ) -> Execution:
        execution_id = protocol_names.execution_id(time.time(), os.urandom(8))
        settings = options.WorkspaceOptions(self.directory / "workspaces", cache_bytes=0)
        emit, spark = self.surroundings.emit, self.surroundings.spark

        def workspaces(ref: WorkspaceRef) -> port.AttemptWorkspace:
            if declaration.kind is WorkspaceKind.LANES:
                return recorder.wrap(LaneBranchesWorkspace(execution, ref))
            arguments = (self.store, ref, object_prefix(declaration), polled.attempt, execution_id, settings, emit)
            is_spark = declaration.kind is WorkspaceKind.SPARK
            return recorder.wrap(SparkFolderWorkspace(*arguments, engine=spark()) if is_spark else LocalWorkspace(*arguments))

        @contextlib.contextmanager
        def around_body(argument: object) -> Generator[None]:
            def scratch(warn: working_directory.Warn) -> contextlib.AbstractContextManager[AttemptDirectory]:
                return working_directory.scratch_once(self.directory / "scratch", polled.attempt, execution_id, warn)

            with working_directory.for_body(argument, scratch, warn), self.surroundings.around_body():
                yield

        task = recorder.wrap(declared_task.DeclaredTask(declaration, around_body))
        keep = KeepFailed(_KEPT_SECONDS, declaration.workspace.prefix) if self.keep and declaration.workspace else None
        fence = DirectFence(server)
        execution = Execution(polled.attempt, execution_id, task, self.store, fence, workspaces, emit=emit, keep_failed=keep)
        return execution


def make_store(files: Mapping[FilePath, Path], prefix: str, directory: Path) -> folder_lake.FolderLake:
    """A store in `directory` that holds the files below the prefix, which is as in object names."""
    (directory / "store").mkdir()
    try:
        return folder_lake.FolderLake(
            {path_mapping.to_object(prefix, path): at for path, at in files.items()}, directory / "store"
        )
    except (WorkspaceError, OSError) as error:
        raise SetupError(f"the workspace cannot be copied: {error}") from error


def input_workspace(store: folder_lake.FolderLake) -> WorkspaceRef:
    """The files as they were given."""
    return WorkspaceRef(folder_lake.REPOSITORY, lake.MAIN, store.start)


def object_prefix(declaration: TaskDeclaration) -> str:
    """The prefix of the workspace as in object names; empty without one."""
    return path_mapping.listing_prefix(declaration.workspace.prefix) if declaration.workspace else ""


def _polled(server: conductor.FakeConductor, declaration: TaskDeclaration, ref: str, task_input: Mapping[str, Any]) -> Polled:
    task_type = TaskType(declaration.name)
    server.start([conductor.WorkflowStep(task_type, ref, task_input)])
    polled = server.poll(task_type, WorkerId("local"), wait_seconds=0)
    if polled is None:
        raise AssertionError("a task that was just scheduled is there to be polled")
    return polled
