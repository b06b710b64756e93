"""Commands that never outlive this process: a command line goes in, a Child with pid, exit code and log comes out."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago.errors import ProvisionError
from perago.process.stop_request import Cancel

_KEEPER = Path(__file__).with_name("command_guardian.py")
_SPAWN_SECONDS = 30.0
_TICK = 0.2


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, where, and where its output goes (appended)."""

    line: Sequence[str]
    cwd: Path
    log: Path
    env: Mapping[str, str] | None = None
    grace: float = 10.0
    lock_fd: int | None = None
    """Stays open until the command has ended, even when this process is gone."""
    remove: Path | None = None
    """A directory to remove if this process is killed."""
    keep_log: Path | None = None
    """Where the log goes when the command fails and its directory is removed."""

    def order(self) -> str:
        remove = str(self.remove) if self.remove else None
        return json.dumps(
            {"cwd": str(self.cwd), "log": str(self.log), "grace": self.grace, "lock_fd": self.lock_fd, "remove": remove}
        )


class Child:
    """A running command under its keeper."""

    __slots__ = ("_buffer", "_control", "_exit_code", "_grace", "_keeper", "_status", "pid")

    def __init__(self, command: Command) -> None:
        orders, self._control = os.pipe()
        self._status, news = os.pipe()
        self._buffer = b""
        self._exit_code: int | None = None
        self._grace = command.grace
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), command.order(), *command.line],
                stdin=orders,
                stdout=news,
                env=command.env,
                pass_fds=() if command.lock_fd is None else (command.lock_fd,),
                start_new_session=True,
            )
        finally:
            os.close(orders)
            os.close(news)
        self.pid = self._read_pid(command.line[0])

    def _read_pid(self, program: str) -> int:
        word, _, rest = self._line(time.monotonic() + _SPAWN_SECONDS).partition(" ")
        if word == "pid":
            return int(rest)
        self._reap()
        raise ProvisionError(f"{program} cannot be started: {rest or 'its keeper died'}")

    @property
    def descriptor(self) -> int:
        """Readable when the command has ended."""
        return self._status

    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        if self._exit_code is None and select.select([self._status], [], [], 0)[0]:
            self._finish(time.monotonic() + _SPAWN_SECONDS)
        return self._exit_code

    def stop(self) -> int:
        """Asks it to end, insists after the grace period, and waits."""
        if self._exit_code is None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"s")
            self._finish(time.monotonic() + self._grace + _SPAWN_SECONDS)
        return self._exit_code if self._exit_code is not None else -signal.SIGKILL

    def kill(self) -> int:
        """Kills it at once, as a crash would, and waits."""
        if self._exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.stop()

    def _finish(self, deadline: float) -> None:
        word, _, rest = self._line(deadline).partition(" ")
        # A keeper that was killed takes its command along and leaves no last word.
        self._exit_code = int(rest) if word == "exit" else -signal.SIGKILL
        self._reap()

    def _line(self, deadline: float) -> str:
        while b"\n" not in self._buffer:
            remaining = max(0.0, deadline - time.monotonic())
            if not select.select([self._status], [], [], remaining)[0]:
                break
            chunk = os.read(self._status, 4096)
            if not chunk:
                break
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def _reap(self) -> None:
        os.close(self._control)
        os.close(self._status)
        self._keeper.wait()


def run(command: Command, cancel: Cancel, tick: Callable[[], None]) -> int:
    """Runs a command to its end, calling `tick` a few times a second; a stop request ends it."""
    child = Child(command)
    try:
        while (code := child.exit_code()) is None:
            tick()
            cancel.wait([child.descriptor], _TICK)
        return code
    finally:
        child.stop()


def tail(log: Path, limit: int = 4000) -> str:
    """The last characters of a log, or nothing when there is none."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - limit))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
