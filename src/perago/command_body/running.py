"""Runs the body of a command task: starts the process, passes on its output, ends it with the attempt, and reads its result."""

import contextlib
import os
import select
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from perago.command_body import environment, exchange
from perago.command_body.exchange import Exchange
from perago.command_body.output import OutputStream
from perago.declare.command_line import Command
from perago.declare.contract import Contract
from perago.errors import CommandFailed, CommandTerminalError, ProvisionError, TaskResultError
from perago.process import child_process
from perago.process.exit_status import ExitStatus

GRACE_SECONDS = 4.0
"""Between SIGTERM and SIGKILL. Less than the time after which a worker interrupts a cancelled body."""
TERMINAL = {65: "data error", 78: "configuration error"}
"""Exit codes, as in sysexits.h, that say that no retry can help."""
_TICK = 0.1
"""How soon a cancellation is noticed."""
_PAUSE_OF_FULL_OUTPUT = 0.005
"""Slows down a command whose output is dropped, so that reading it costs little."""


def run(command: Command, contract: Contract, work: Path, params: BaseModel, is_cancelled: Callable[[], bool]) -> BaseModel:
    """Run the command in `work` and return its result.

    `CommandFailed` and `CommandTerminalError` give the exit status and the last lines that it printed; `TaskResultError` says
    what is wrong with its result. When this returns or raises, every process that the command started has ended.
    """
    with exchange.opened(work, params) as files:
        with _started(command, work, files) as process:
            process.wait(is_cancelled)
        process.require_success()
        return _result(contract, files)


def _result(contract: Contract, files: Exchange) -> BaseModel:
    written = files.read_result()
    if written is not None:
        return contract.parse_result(exchange.parsed(written))
    missing = [info.alias or name for name, info in contract.result.model_fields.items() if info.is_required()]
    if missing:
        names = ", ".join(missing)
        raise TaskResultError(f"the command wrote no result to the file that PERAGO_RESULT names; it must have: {names}")
    return contract.parse_result({})


@dataclass(slots=True)
class _Process:
    """The process of a command under its guardian, which ends it and everything that it started."""

    child: child_process.ChildProcess
    streams: tuple[OutputStream, OutputStream]
    code: int | None = None
    _is_asked_to_end: bool = field(default=False, init=False)

    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        """Until it has ended; SIGTERM if the attempt is cancelled or interrupted, then SIGKILL after the grace period."""
        try:
            while not self._has_ended():
                if is_cancelled():
                    self._ask_to_end()
        except BaseException:
            # SIGTERM to this process, or Ctrl-C. A second one ends the wait, and with it the command.
            self._ask_to_end()
            deadline = time.monotonic() + GRACE_SECONDS
            while not self._has_ended() and time.monotonic() < deadline:
                pass
            raise

    def end(self) -> None:
        """Kill what is left, and pass on the rest of the output."""
        self.code = self.child.kill()
        for stream in self.streams:
            stream.read_rest()
            stream.close()

    def require_success(self) -> None:
        stdout, stderr = self.streams
        words = stderr.last_words() or stdout.last_words()
        said = f": {words}" if words else ", and printed nothing"
        if self.code in TERMINAL:
            raise CommandTerminalError(f"the command exited with code {self.code} ({TERMINAL[self.code]}){said}")
        if self.code:
            raise CommandFailed(f"the command {ExitStatus(self.code)}{said}")

    def _ask_to_end(self) -> None:
        if not self._is_asked_to_end and self.child.exit_code() is None:
            self._is_asked_to_end = True
            self.child.begin_stop()

    def _has_ended(self) -> bool:
        """Whether the command and everything that it started have ended; if not, pass on output for a moment."""
        if self.child.exit_code() is not None:
            return True
        readers = {stream.reader: stream for stream in self.streams if not stream.is_at_end}
        readable, _, _ = select.select([self.child.descriptor, *readers], [], [], _TICK)
        for descriptor in readable:
            if (stream := readers.get(descriptor)) is not None and stream.read() and stream.is_full:
                time.sleep(_PAUSE_OF_FULL_OUTPUT)
        return False


@contextlib.contextmanager
def _started(command: Command, work: Path, files: Exchange) -> Generator[_Process]:
    """The process, which is killed at the end."""
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    for reader in (out, err):
        os.set_blocking(reader, False)
    streams = OutputStream(out, "stdout"), OutputStream(err, "stderr")
    try:
        child = _child(command, work, files, (out_end, err_end))
    except BaseException:
        for stream in streams:
            stream.close()
        raise
    finally:
        os.close(out_end)
        os.close(err_end)
    process = _Process(child, streams)
    try:
        yield process
    finally:
        process.end()


def _child(command: Command, work: Path, files: Exchange, outputs: tuple[int, int]) -> child_process.ChildProcess:
    given = environment.of(command, files, os.environ)
    started = child_process.Command(command.line, work, None, given, grace=GRACE_SECONDS, outputs=outputs, input=files.params)
    try:
        return child_process.ChildProcess(started)
    except (ProvisionError, OSError) as error:
        raise CommandFailed(f"the command {_why(command, error)}") from error


def _why(command: Command, error: ProvisionError | OSError) -> str:
    """The first line of a script may name a program that is not there; the system then says that the script is not there."""
    if fault := command.missing_program():
        return f"cannot be started: {fault}"
    hint = "; is the program in its first line, such as #!/bin/sh, installed?" if "/" in command.line[0] else ""
    return f"cannot be started: {error}{hint}"
