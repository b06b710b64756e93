"""One executor process: imports the task modules, connects, then runs one attempt at a time for the supervisor."""

import contextlib
import os
import signal
import sys
from collections.abc import Generator, Sequence

from perago import human_units, ipc
from perago import settings as worker_settings
from perago.attempt import cancellation, declared_task, overlap, transaction
from perago.attempt import port as attempt_port
from perago.attempt.execution import Conclude, Execution, KeepFailed, as_it_is
from perago.attempt.rival_wait import LONGEST, Patience
from perago.builtin import lane_workspace
from perago.builtin import names as built_in_names
from perago.declare import module_loader, taskdef
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import LakeError, RuntimeConfigError, SetupError
from perago.events import Done, Event
from perago.executor import interruption, process_start, process_state, source_files, supervisor_channel
from perago.lake.client import TRANSFER_TIMEOUTS, LakeFS
from perago.model import Attempt, ExecutionId, LakeAccess, Outcome, WorkspaceRef
from perago.pipelines import loader
from perago.protocol import decision
from perago.provision.progress import InstallProgress
from perago.spark import engine
from perago.spark import options as spark_options
from perago.spark import workspace as spark_workspace
from perago.workspace import attempt_directory, options, working_directory
from perago.workspace.local_workspace import LocalWorkspace

REFUSED = 3
"""Exit code of an executor whose modules cannot be used."""


class Executor:
    """Holds what is kept between attempts: declarations, the lakeFS client and the Spark engine."""

    def __init__(
        self,
        channel: supervisor_channel.SupervisorChannel,
        settings: worker_settings.Settings,
        body_interruption: interruption.Interruption,
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._interruption = body_interruption
        self._options = options.WorkspaceOptions(
            settings.perago_workspace_root, settings.perago_cache_root, settings.perago_cache_max_size
        )
        self._scratch = working_directory.ScratchDirectory(self._options.root)
        self._lake = _lake(settings)
        self._tasks: dict[str, TaskDeclaration] = {}
        self._spark = engine.make(spark_options.from_settings(settings), self._log_fetched)

    def load(self, modules: Sequence[str]) -> None:
        """Import the modules, send what they declare, and connect."""
        declared = [task for module in modules for task in loader.tasks_of(loader.load(module))]
        declared += [module_loader.load(module) for module in self._built_in_modules]
        # A task of several pipelines is served once; two tasks of one name are refused later.
        tasks = list({(task.name, task.module): task for task in declared}.values())
        self._channel.send(ipc.SourcesImported(source_files.imported(modules)))
        module_loader.require_programs(tasks)
        self._tasks = {task.name: task for task in tasks}
        if any(task.kind is WorkspaceKind.SPARK for task in tasks):
            # Now, so that the first attempt does not wait for it.
            self._spark.start()
        self._channel.send(ipc.ModulesLoaded(tuple(facts(task) for task in tasks)))
        # An outage now must not keep the executor from starting.
        with contextlib.suppress(LakeError):
            if self._settings.lakefs is not None:
                self._lake.capabilities()
        self._channel.send(ipc.Ready(os.getpid()))

    @property
    def _built_in_modules(self) -> Sequence[str]:
        is_served = self._settings.lakefs is not None and self._settings.perago_serve_built_in_tasks
        return built_in_names.MODULES if is_served else ()

    def serve(self) -> None:
        before = process_state.capture()
        for run in self._channel.runs():
            threads = process_state.threads()
            finished = ipc.Finished(run.execution_id, self._run(run))
            self._channel.require_owner()
            for left in process_state.restore(before, threads):
                self._channel.send(ipc.LogLine("warning", left))
            self._channel.send(finished)

    def close(self) -> None:
        """Remove the directory that is kept between attempts; that of a running attempt is left to the supervisor."""
        self._scratch.remove()

    def _run(self, run: ipc.Run) -> Outcome:
        attempt = run.polled.attempt
        declaration = self._tasks[attempt.task_type]
        budget = declared_task.budget(declaration)
        execution = Execution(
            attempt=attempt,
            id=run.execution_id,
            task=declared_task.DeclaredTask(declaration, lambda argument: self._around_body(run, argument)),
            lake=self._lake,
            conductor=self._channel,
            workspaces=lambda ref: self._workspace(declaration, ref, run, execution),
            budget=budget,
            emit=self._emit,
            reason_max_length=self._settings.perago_failure_reason_max_length,
            unlabelled=decision.UnlabelledHead(self._settings.perago_unlabelled_head),
            patience=Patience(min(LONGEST, budget.publish_seconds)),
            begin=overlap.in_thread,
            received_at=run.received_at,
            conclude=self._report_early(run.execution_id) if declaration.publishes else as_it_is,
            keep_failed=self._keep_failed(declaration, attempt),
        )
        return transaction.run(execution, run.polled.input)

    def _report_early(self, execution_id: ExecutionId) -> Conclude:
        """The supervisor reports a publication while the executor cleans up."""

        def conclude(_: object, completed: Outcome) -> Outcome:
            self._channel.send(ipc.Completed(execution_id, completed))
            return completed

        return conclude

    def _keep_failed(self, declaration: TaskDeclaration, attempt: Attempt) -> KeepFailed | None:
        seconds = self._settings.perago_keep_failed
        if not seconds or declaration.workspace is None:
            return None
        hint = f"kept for {human_units.show_seconds(seconds)}: perago inspect {attempt.task_id}"
        return KeepFailed(seconds, declaration.workspace.prefix, hint)

    def _workspace(
        self, declaration: TaskDeclaration, ref: WorkspaceRef, run: ipc.Run, execution: Execution
    ) -> attempt_port.AttemptWorkspace:
        if declaration.kind is WorkspaceKind.LANES:
            return lane_workspace.LaneBranchesWorkspace(execution, ref)
        prefix = declaration.workspace.prefix if declaration.workspace else "/"
        if declaration.kind is WorkspaceKind.SPARK:
            access = self._settings.require_lakefs()
            dependencies = spark_workspace.SparkDependencies(self._spark, access, cancellation.cancelled, self._emit)
            return spark_workspace.SparkBranchWorkspace(self._lake, ref, prefix, dependencies)
        return LocalWorkspace(self._lake, ref, prefix, run.polled.attempt, run.execution_id, self._options, self._emit)

    @contextlib.contextmanager
    def _around_body(self, run: ipc.Run, argument: object) -> Generator[None]:
        """The body's working directory, in which SIGTERM may interrupt it."""

        def scratch(warn: working_directory.Warn) -> contextlib.AbstractContextManager[attempt_directory.AttemptDirectory]:
            return self._scratch.taken(run.polled.attempt, run.execution_id, warn)

        with working_directory.for_body(argument, scratch, lambda line: self._channel.send(ipc.LogLine("warning", line))):
            try:
                with self._interruption.during_body():
                    yield
            finally:
                # A forked copy must not remove the directory.
                self._channel.require_owner()

    def _log_fetched(self, progress: InstallProgress) -> None:
        if progress.finished:
            self._channel.send(ipc.LogLine("info", f"fetched {progress.step}"))

    def _emit(self, event: Event) -> None:
        """Send progress at once, because the process may die in that phase; send completed effects with the next message."""
        send = self._channel.send_later if isinstance(event, Done) else self._channel.send
        send(ipc.EventEmitted(event))


def facts(task: TaskDeclaration) -> ipc.TaskFacts:
    budget = declared_task.budget(task)
    return ipc.TaskFacts(
        module=task.module,
        task_type=task.name,
        needs_lake=task.workspace is not None,
        definition=taskdef.of(task),
        is_built_in=task.module in built_in_names.MODULES,
        warnings=task.warnings,
        publish_seconds=budget.publish_seconds,
        completion_seconds=budget.completion_seconds,
        heartbeat_seconds=budget.heartbeat_seconds,
    )


def _lake(settings: worker_settings.Settings) -> LakeFS:
    """A client even if lakeFS is not configured: then only tasks without a workspace run, which never use it."""
    access = settings.lakefs or LakeAccess("http://lakefs-is-not-configured.invalid", "", "")
    try:
        return LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=TRANSFER_TIMEOUTS)
    except RuntimeConfigError as error:
        raise RuntimeConfigError(f"LAKECTL_SERVER_ENDPOINT_URL: {error}") from error


def main(arguments: Sequence[str]) -> int:
    """`python -m perago.executor.main FD MODULE…`, started by its guardian only."""
    descriptor, *modules = arguments
    interruptions = interruption.Interruption()
    connection = process_start.prepare(descriptor)
    signal.signal(signal.SIGTERM, interruptions.on_signal)
    channel = supervisor_channel.SupervisorChannel(connection)
    try:
        executor = Executor(channel, worker_settings.load(), interruptions)
        channel.start(on_close=executor.close)
        executor.load(modules)
    except SetupError as error:
        channel.send(ipc.SourcesImported(source_files.imported(modules, error)))
        channel.send(ipc.ModulesRejected(str(error), type(error).__name__))
        return REFUSED
    executor.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
