"""Start commands that never outlive this process: each runs under a guardian, which ends it and everything that it started."""

import contextlib
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.errors import ProvisionError
from perago.process import guardian
from perago.process.stop_request import StopRequest

_SPAWN_SECONDS = 30.0
_TICK = 0.2


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, where, and where its output goes (appended)."""

    line: Sequence[str]
    cwd: Path
    log: Path | None
    """None: it writes to `outputs`."""
    env: Mapping[str, str] | None = None
    grace: float = 10.0
    lock_fd: int | None = None
    """Stays open until the command has ended, even when this process is gone."""
    remove: Path | None = None
    """A directory to remove if this process is killed."""
    keep_log: Path | None = None
    """Where the log goes when the command fails and its directory is removed."""
    pass_fd: int | None = None
    """A descriptor for the command alone."""
    outputs: tuple[int, int] | None = None
    """Descriptors for its standard output and standard error. None: those of this process."""
    input: Path | None = None
    """The file that it reads as its standard input. None: it reads nothing."""


def guardian_line(command: Sequence[str], **options: str | float | Path | None) -> list[str]:
    """The command line of a guardian for `command`; its options are those of `guardian.main`, None leaves one out."""
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    return [sys.executable, "-I", "-S", guardian.__file__, *given, "--", *command]


def reported_exit_code(answers: bytes) -> int | None:
    """The exit code that a guardian wrote last; None from one that was killed before everything had ended."""
    word, _, code = answers.decode(errors="replace").rstrip().rpartition("\n")[2].partition(" ")
    return int(code) if word == "exit" else None


class ChildProcess:
    """A running command under its guardian."""

    __slots__ = ("_answers", "_exit_code", "_grace", "_guardian", "_socket", "pid")

    def __init__(self, command: Command) -> None:
        self._socket, theirs = socket.socketpair()
        self._answers = b""
        self._exit_code: int | None = None
        self._grace = command.grace
        stdout, stderr = command.outputs or (None, None)
        with theirs:
            self._guardian = subprocess.Popen(
                guardian_line(
                    command.line,
                    cwd=command.cwd,
                    input=command.input,
                    log=command.log,
                    grace=command.grace,
                    lock_fd=command.lock_fd,
                    remove=command.remove,
                    pass_fd=command.pass_fd,
                ),
                stdin=theirs.fileno(),
                stdout=stdout if command.log is None else subprocess.DEVNULL,
                stderr=stderr,
                env=command.env,
                pass_fds=[number for number in (command.lock_fd, command.pass_fd) if number is not None],
                start_new_session=True,
            )
        try:
            self.pid = self._read_pid(command.line[0])
        except BaseException:
            # Also of a signal: the guardian ends the command when the socket is closed.
            self._reap()
            raise

    def _read_pid(self, program: str) -> int:
        word, _, rest = self._answer(time.monotonic() + _SPAWN_SECONDS).partition(" ")
        if word == "pid":
            return int(rest)
        raise ProvisionError(f"{program} cannot be started: {rest or 'its guardian died'}")

    @property
    def descriptor(self) -> int:
        """Readable when the command has ended."""
        return self._socket.fileno()

    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        if self._exit_code is None and select.select([self._socket], [], [], 0)[0]:
            self._finish(time.monotonic() + _SPAWN_SECONDS)
        return self._exit_code

    def begin_stop(self) -> None:
        """Asks it to end and returns at once; the guardian kills it after the grace period."""
        # A guardian that is gone has ended its command.
        with contextlib.suppress(ConnectionError):
            self._socket.send(guardian.STOP)

    def stop(self) -> int:
        """Asks it to end, kills it after the grace period, and waits."""
        return self._end(guardian.STOP, self._grace)

    def kill(self) -> int:
        """Kills it at once, as a crash would, and waits."""
        return self._end(guardian.KILL, 0.0)

    def _end(self, order: bytes, grace: float) -> int:
        if self._exit_code is None:
            # A guardian that is gone has ended its command.
            with contextlib.suppress(ConnectionError):
                self._socket.send(order)
            self._finish(time.monotonic() + grace + _SPAWN_SECONDS)
        return self._exit_code if self._exit_code is not None else -signal.SIGKILL

    def _finish(self, deadline: float) -> None:
        code = reported_exit_code(self._answer(deadline).encode())
        # The kernel kills the command with a guardian that is killed, which then reports nothing.
        self._exit_code = -signal.SIGKILL if code is None else code
        self._reap()

    def _answer(self, deadline: float) -> str:
        """The guardian's next line; empty when there is none before the deadline."""
        # A guardian that is killed before it has read an order resets the connection.
        with contextlib.suppress(ConnectionError):
            while b"\n" not in self._answers:
                if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    break
                if not (chunk := self._socket.recv(4096)):
                    break
                self._answers += chunk
        line, _, self._answers = self._answers.partition(b"\n")
        return line.decode(errors="replace")

    def _reap(self) -> None:
        self._socket.close()
        self._guardian.wait()


def run(command: Command, stop_request: StopRequest, tick: Callable[[], None]) -> int:
    """Runs a command to its end, calling `tick` a few times a second; a stop request ends it."""
    child = ChildProcess(command)
    try:
        while (code := child.exit_code()) is None:
            tick()
            stop_request.wait([child.descriptor], _TICK)
        return code
    finally:
        child.stop()


def tail(log: Path, limit: int = 4000) -> str:
    """The last characters of a log; empty when there is no log."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - limit))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
