"""The process of `perago run` that imports the task module and runs one attempt on a folder, as an executor does on lakeFS."""

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
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.errors import PeragoError
from perago.executor import interruption, process_start
from perago.local_run import environment, messages
from perago.provision.progress import InstallProgress
from perago.spark import engine
from perago.spark import options as spark_options

REFUSED = 3
"""Exit code of a process whose task cannot be run."""


class LocalTask:
    """One task in this process. Forked copies of it end before they send anything."""

    def __init__(self, connection: socket.socket, directory: Path) -> None:
        self._connection = connection
        self._directory = directory
        self._owner = os.getpid()
        self._interruption = interruption.Interruption()

    def run(self, module: str) -> int:
        try:
            with _stdout_to_stderr():
                declaration = module_loader.load(module)
            self._send(_declared(declaration))
            request = messages.receive(self._connection, messages.TO_TASK)
            if request is not None:
                self._send(self._attempt(declaration, request))
        except PeragoError as error:
            self._send(ipc.ModulesRejected(str(error), type(error).__name__))
            return REFUSED
        return 0

    def _attempt(self, declaration: TaskDeclaration, request: messages.Run) -> messages.Ended:
        declaration.contract.parse_params(request.params)
        files = {} if request.workspace is None else environment.files_of(request.workspace)
        spark = engine.make(spark_options.SparkOptions(self._directory / "spark"), self._report_fetched)
        if declaration.kind is WorkspaceKind.SPARK:
            self._emit(events.Progress(events.Phase.PREPARE, note="starting Spark"))
            spark.start()
        # Before, nothing has to be cleaned up, and SIGTERM may end the process at once.
        signal.signal(signal.SIGTERM, self._on_signal)
        self._send(ipc.Ready(os.getpid()))
        surroundings = environment.Surroundings(lambda: spark, self._emit, self._around_body)
        done = environment.attempt(declaration, files, request.params, self._directory, surroundings)
        self._require_owner()
        for stream in (sys.stdout, sys.stderr):
            # The body may have closed or replaced it.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        return _ended(done)

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
    timeout = task.controls.timeout
    return messages.Declared(
        name=task.name,
        has_workspace=task.workspace is not None,
        publishes=task.publishes,
        prefix=environment.object_prefix(task),
        time_limit=0 if timeout.policy == "ALERT_ONLY" else timeout.seconds,
        retried_after_timeout=timeout.policy == "RETRY",
        warnings=task.warnings,
    )


def _ended(done: environment.LocalRun) -> messages.Ended:
    error = done.error
    is_own = isinstance(error, PeragoError)
    return messages.Ended(
        outcome=done.outcome,
        given=done.given,
        published=done.published,
        warnings=done.warnings,
        traceback=() if error is None or is_own else tuple(author_traceback.lines(error)),
        code=error.code if isinstance(error, PeragoError) else "",
    )


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
    return LocalTask(process_start.prepare(descriptor), Path(directory)).run(module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
