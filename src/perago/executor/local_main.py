"""The process of `perago run` that imports the module and runs its task or pipeline on a folder, as executors do on lakeFS."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType

from perago import events, ipc
from perago.attempt import author_traceback, cancellation
from perago.declare import module_loader
from perago.declare.lanes import BUILT_IN_PREFIX
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import PeragoError
from perago.executor import interruption, process_start
from perago.local_run import environment, local_attempts, messages, pipeline_run
from perago.local_run.answers import Answers
from perago.local_run.local_attempts import Surroundings, object_prefix
from perago.local_run.step_run import StepRun
from perago.pipelines import graph, inputs, loader
from perago.provision.progress import InstallProgress
from perago.spark import engine
from perago.spark import options as spark_options
from perago.workspace import path_mapping

REFUSED = 3
"""Exit code of a process whose task cannot be run."""


class LocalModule:
    """One task or pipeline in this process. Forked copies of it end before they send anything."""

    def __init__(self, connection: socket.socket, directory: Path) -> None:
        self._connection = connection
        self._directory = directory
        self._owner = os.getpid()
        self._interruption = interruption.Interruption()

    def run(self, module: str) -> int:
        try:
            with _stdout_to_stderr():
                declared = loader.load(module)
            self._send(_declared_pipeline(declared) if isinstance(declared, graph.Pipeline) else _declared(declared))
            request = messages.receive(self._connection, messages.TO_TASK)
            if isinstance(request, messages.Run):
                is_pipeline = isinstance(declared, graph.Pipeline)
                self._send(self._pipeline(declared, request) if is_pipeline else self._attempt(declared, request))
        except PeragoError as error:
            self._send(ipc.ModulesRejected(str(error), type(error).__name__))
            return REFUSED
        return 0

    def _attempt(self, declaration: TaskDeclaration, request: messages.Run) -> messages.Ended:
        declaration.contract.parse_params(request.params)
        files = {} if request.workspace is None else environment.files_of(request.workspace)
        surroundings = self._ready([declaration])
        done = environment.attempt(declaration, files, request.params, self._directory, surroundings, keep=request.keep)
        self._after_bodies()
        return _ended(done)

    def _pipeline(self, pipeline: graph.Pipeline, request: messages.Run) -> messages.PipelineEnded:
        inputs.require_valid(pipeline, request.params)
        answers = Answers(request.answers)
        answers.require_for(pipeline)
        files = {} if request.workspace is None else environment.files_of(request.workspace)
        store = local_attempts.make_store(files, "", self._directory)
        attempts = local_attempts.LocalAttempts(store, self._directory, self._ready(pipeline.tasks()), request.keep)
        done = pipeline_run.interpret(pipeline, attempts, request.params, self, answers)
        self._after_bodies()
        return messages.PipelineEnded(done.outputs, done.failed, done.given, done.published, done.notes, done.kept)

    def _ready(self, tasks: Sequence[TaskDeclaration]) -> Surroundings:
        """Start Spark if one of the tasks needs it, and say that the run begins."""
        module_loader.require_programs(tasks)
        spark = engine.make(spark_options.SparkOptions(self._directory / "spark"), self._report_fetched)
        if any(task.kind is WorkspaceKind.SPARK for task in tasks):
            self._emit(events.Progress(events.Phase.PREPARE, note="starting Spark"))
            spark.start()
        # Before, nothing has to be cleaned up, and SIGTERM may end the process at once.
        signal.signal(signal.SIGTERM, self._on_signal)
        self._send(ipc.Ready(os.getpid()))
        return Surroundings(lambda: spark, self._emit, self._around_body)

    def begins(self, ref: str, task: TaskDeclaration) -> None:
        """A step of the pipeline; it waits until what the steps before it did has been shown."""
        self._send(messages.StepBegins(ref, task.name, _limit(task), task.name.startswith(BUILT_IN_PREFIX)))
        if messages.receive(self._connection, messages.TO_TASK) is None:
            os._exit(0)

    def ended(self, step: StepRun) -> None:
        self._after_bodies()
        done = step.attempt
        traceback, code = _explained(done.error)
        self._send(messages.StepEnded(done.outcome, step.optional, step.changes, done.warnings, traceback, code, step.tables))

    def _after_bodies(self) -> None:
        self._require_owner()
        for stream in (sys.stdout, sys.stderr):
            # The body may have closed or replaced it.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()

    @contextlib.contextmanager
    def _around_body(self) -> Generator[None]:
        try:
            with self._interruption.during_body():
                yield
        finally:
            # A forked copy must not remove the directory.
            self._require_owner()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        cancellation.set_reason("perago run was stopped, or the time limit of the task is over")
        self._interruption.on_signal(number, frame)

    def _report_fetched(self, progress: InstallProgress) -> None:
        note = f"fetching {progress.step}" if not progress.finished else "starting Spark"
        self._emit(events.Progress(events.Phase.PREPARE, note=note))

    def _emit(self, event: events.Event) -> None:
        self._send(ipc.EventEmitted(event))

    def _send(self, message: messages.FromTask) -> None:
        self._require_owner()
        messages.send(self._connection, messages.FROM_TASK, message)

    def _require_owner(self) -> None:
        if os.getpid() != self._owner:
            os._exit(0)


def _declared(task: TaskDeclaration) -> messages.Declared:
    return messages.Declared(
        name=task.name,
        has_workspace=task.workspace is not None,
        publishes=task.publishes,
        prefix=object_prefix(task),
        limit=_limit(task),
        warnings=task.warnings,
    )


def _declared_pipeline(pipeline: graph.Pipeline) -> messages.DeclaredPipeline:
    prefixes = {object_prefix(task) for task in pipeline.tasks() if task.workspace is not None}
    prefixes |= {path_mapping.listing_prefix(one.workspace.prefix) for one in pipeline.humans() if one.workspace is not None}
    outermost = (one for one in prefixes if not any(one != other and one.startswith(other) for other in prefixes))
    return messages.DeclaredPipeline(
        name=pipeline.name,
        has_workspace=pipeline.has_workspace,
        publishes=pipeline.writes,
        prefixes=tuple(sorted(outermost)),
        warnings=pipeline.warnings,
    )


def _limit(task: TaskDeclaration) -> messages.TimeLimit:
    timeout = task.controls.timeout
    return messages.TimeLimit(0 if timeout.policy == "ALERT_ONLY" else timeout.seconds, is_retried=timeout.policy == "RETRY")


def _ended(done: environment.LocalRun) -> messages.Ended:
    traceback, code = _explained(done.error)
    return messages.Ended(done.outcome, done.given, done.published, done.warnings, traceback, code, done.kept)


def _explained(error: BaseException | None) -> tuple[tuple[str, ...], str]:
    """The traceback of an error of the author's code, or the code of Perago's error."""
    if isinstance(error, PeragoError):
        return (), error.code
    return () if error is None else tuple(author_traceback.lines(error)), ""


@contextlib.contextmanager
def _stdout_to_stderr() -> Generator[None]:
    """What the module prints while it is imported is not a result."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def main(arguments: Sequence[str]) -> int:
    """`python -m perago.executor.local_main FD DIRECTORY MODULE`, started by its guardian only."""
    descriptor, directory, module = arguments
    return LocalModule(process_start.prepare(descriptor), Path(directory)).run(module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
