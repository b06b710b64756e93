"""Runs a task or a pipeline in a process of its own under a guardian, for `perago run`: a crash ends only that process.

The guardian ends everything that was started there, and removes the run's directory if this process is killed.
"""

import contextlib
import os
import select
import socket
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from perago import errors, events, ipc
from perago.attempt import lost_executor
from perago.local_run import messages
from perago.local_run.environment import LocalRun
from perago.model import Outcome
from perago.process.child_process import ChildProcess, Command
from perago.process.exit_status import ExitStatus
from perago.process.lock_file import LockFile

GRACE_SECONDS = 5.0
"""Time that a body has to end after SIGTERM, as in the worker."""
_EXIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class IsolatedRun:
    """How the run ended; its paths are gone when the process is closed."""

    done: LocalRun
    traceback: tuple[str, ...] = ()
    """Of an error of the author's code."""
    code: str = ""
    """Of Perago's error."""
    timed_out: bool = False


@contextlib.contextmanager
def started(module: str) -> Generator["TaskProcess"]:
    """Start the process that imports the module, and end it and remove its directory afterwards."""
    with tempfile.TemporaryDirectory(prefix="perago-run-", ignore_cleanup_errors=True) as directory:
        ours, theirs = socket.socketpair()
        with ours, LockFile(Path(directory) / "lock") as lock:
            with theirs:
                child = ChildProcess(_command(module, Path(directory), theirs.fileno(), lock.descriptor))
            try:
                yield TaskProcess(module, Path(directory), ours, child)
            finally:
                child.stop()


def _command(module: str, directory: Path, pass_fd: int, lock_fd: int) -> Command:
    (directory / "run").mkdir()
    line = [sys.executable, "-m", "perago.executor.local_main", str(pass_fd), str(directory / "run"), module]
    environ = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    return Command(line, Path.cwd(), None, environ, grace=GRACE_SECONDS, lock_fd=lock_fd, remove=directory, pass_fd=pass_fd)


class TaskProcess:
    """`declared` first, then `run`, once each."""

    def __init__(self, module: str, directory: Path, connection: socket.socket, child: ChildProcess) -> None:
        self._module = module
        self._connection = connection
        self._child = child
        self.directory = directory

    def declared(self) -> messages.Declared | messages.DeclaredPipeline:
        """Wait until the module is imported; raises what it is refused with."""
        message = self.receive()
        if isinstance(message, messages.Declared | messages.DeclaredPipeline):
            return message
        raise errors.TaskDefinitionError(f"{self._module}: the process that imported it {self.exit_status()}")

    def run(
        self,
        declared: messages.Declared,
        workspace: Path | None,
        params: object,
        emit: events.Emit = events.ignore,
        *,
        keep: bool = False,
    ) -> IsolatedRun:
        """Run one attempt of the task; raises what it is refused with before it begins."""
        self.send(messages.Run(workspace, params, keep))
        clock = AttemptClock()
        while self.is_readable_within(clock.seconds_left()):
            match self.receive():
                case ipc.EventEmitted(event):
                    clock.phase = event.phase
                    emit(event)
                case ipc.Ready():
                    clock.begin(declared.limit)
                case messages.Ended() as ended:
                    self.wait_for_exit()
                    return _isolated(declared, ended)
                case _:
                    return IsolatedRun(_nothing(clock.lost(self.exit_status())))
        self.stop()
        return IsolatedRun(_nothing(clock.expired()), timed_out=True)

    def send(self, message: messages.ToTask) -> None:
        # A process that has ended is noticed when its next message is received.
        with contextlib.suppress(ConnectionError):
            messages.send(self._connection, messages.TO_TASK, message)

    def receive(self) -> messages.FromTask | None:
        """The next message; None if the process has ended. Raises what the module, the params or the folder is refused with."""
        message = messages.receive(self._connection, messages.FROM_TASK)
        if isinstance(message, ipc.ModulesRejected):
            raise _error(message)
        return message

    def is_readable_within(self, seconds: float | None) -> bool:
        return bool(select.select([self._connection], [], [], None if seconds is None else max(0.0, seconds))[0])

    def exit_status(self) -> ExitStatus:
        """After the connection was closed: the guardian then reports how the process ended."""
        select.select([self._child.descriptor], [], [], None)
        code = self._child.exit_code()
        return ExitStatus(-9 if code is None else code)

    def wait_for_exit(self) -> None:
        """A process with threads or a Spark driver that go on is killed instead."""
        if not select.select([self._child.descriptor], [], [], _EXIT_SECONDS)[0]:
            self._child.kill()

    def stop(self) -> None:
        self._child.stop()


@dataclass(slots=True)
class AttemptClock:
    """When the present attempt began, its phase and its time limit."""

    began: float = field(default_factory=time.monotonic)
    limit: float = 0.0
    phase: events.Phase = events.Phase.PREPARE

    def begin(self, limit: messages.TimeLimit) -> None:
        self.began, self.limit, self.phase = time.monotonic(), limit.seconds, events.Phase.PREPARE

    def seconds_left(self) -> float | None:
        """None without a limit."""
        return self.began + self.limit - time.monotonic() if self.limit else None

    def lost(self, exit_status: ExitStatus) -> Outcome:
        return lost_executor.outcome(exit_status, self.phase, time.monotonic() - self.began)

    def expired(self) -> Outcome:
        reason = f"timeout.seconds={self.limit:g} of the task is over in phase {self.phase.value}"
        return Outcome(errors.TaskStatus.FAILED, None, reason)


def _error(message: ipc.ModulesRejected) -> errors.PeragoError:
    kind = getattr(errors, message.error, errors.SetupError)
    return kind(message.message)


def _nothing(outcome: Outcome) -> LocalRun:
    return LocalRun(outcome, {}, {}, "", None)


def _isolated(declared: messages.Declared, ended: messages.Ended) -> IsolatedRun:
    done = LocalRun(ended.outcome, ended.given, ended.published, declared.prefix, None, ended.warnings, ended.kept)
    return IsolatedRun(done, ended.traceback, ended.code)
