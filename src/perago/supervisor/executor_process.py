"""An executor as the supervisor holds it: started fresh below a guardian, spoken to over a private socket, heard, and ended."""

import asyncio
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perago import ipc
from perago.process import child_process, guardian
from perago.process.exit_status import ExitStatus
from perago.process.orphan_reaper import OrphanReaper
from perago.supervisor.output_reader import Lines

DRAIN_SECONDS = 2.0
"""For what a dead executor had still written to its channel and its output."""


@dataclass(frozen=True, slots=True)
class Ears:
    """Who hears what the process says. Called in the loop's thread."""

    message: Callable[[ipc.ToSupervisor], None]
    line: Callable[[str, str], None]
    """Stream name and one line of what the process printed."""


class ExecutorProcess:
    """Made by `start`; `ended` is done when it is dead, with all that it started, and everything it said has been heard."""

    def __init__(
        self,
        popen: "subprocess.Popen[bytes]",
        connection: socket.socket,
        line: socket.socket,
        ears: Ears,
        orphan_reaper: OrphanReaper,
    ) -> None:
        self._popen = popen
        self._ears = ears
        self._orphan_reaper = orphan_reaper
        self._connection = connection
        self._line = line
        self._writer: asyncio.StreamWriter | None = None
        self.ended: asyncio.Task[ExitStatus] = asyncio.create_task(self._watch())

    @classmethod
    def start(cls, modules: Sequence[str], ears: Ears, orphan_reaper: OrphanReaper) -> "ExecutorProcess":
        ours, theirs = socket.socketpair()
        line, orders = socket.socketpair()
        line.setblocking(False)
        with theirs, orders:
            popen = subprocess.Popen(
                child_process.guardian_line(
                    [sys.executable, "-m", "perago.executor.main", str(theirs.fileno()), *modules], pass_fd=theirs.fileno()
                ),
                pass_fds=(theirs.fileno(),),
                stdin=orders.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                start_new_session=True,
            )
        orphan_reaper.spare(popen.pid)
        return cls(popen, ours, line, ears, orphan_reaper)

    @property
    def pid(self) -> int:
        """The guardian's; the executor says its own when it is ready."""
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        return not self.ended.done()

    @property
    def is_heard_out(self) -> bool:
        """Whether all that it printed so far was read."""
        return not any(pipe is not None and _unread(pipe.fileno()) for pipe in (self._popen.stdout, self._popen.stderr))

    def send(self, message: ipc.ToExecutor) -> None:
        """Buffered; to a process that is gone it is lost, which its death makes known."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(ipc.for_executor(message))

    def hang_up(self) -> None:
        """An executor whose channel closes ends itself."""
        if self._writer is not None:
            self._writer.close()

    def interrupt(self) -> None:
        """SIGTERM to the executor alone."""
        self._order(guardian.INTERRUPT)

    def end_orphans(self) -> None:
        """What bodies started and abandoned; what the executor itself still holds stays."""
        self._order(guardian.KILL_ORPHANS)

    def kill(self) -> None:
        """The executor and all that ever came of it."""
        self._order(guardian.KILL)

    def kill_guardian(self) -> None:
        """Where it does not obey; the executor dies with it, and the orphan reaper kills the rest."""
        self._popen.kill()

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self._line.send(order)

    async def _watch(self) -> ExitStatus:
        reader, self._writer = await asyncio.open_connection(sock=self._connection)
        hearing = asyncio.create_task(self._hear(reader))
        pipes = [await self._listen("stdout", self._popen.stdout), await self._listen("stderr", self._popen.stderr)]
        code = await self._exit()
        self._orphan_reaper.forget(self.pid)
        said = self._last_word()
        if said is None:
            await self._orphan_reaper.kill_orphans()
        await asyncio.wait([hearing, *(pipe.closed for _, pipe in pipes)], timeout=DRAIN_SECONDS)
        hearing.cancel()
        for transport, _ in pipes:
            transport.close()
        self._writer.close()
        return ExitStatus(code if said is None else said)

    def _last_word(self) -> int | None:
        """The executor's exit code; None from a guardian that was killed before it had seen to everything."""
        with self._line, contextlib.suppress(OSError):
            return child_process.reported_exit_code(self._line.recv(4096))
        return None

    async def _exit(self) -> int:
        """A thread waits, so that no process-wide child handler is needed."""
        loop, gone = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def wait() -> None:
            code = self._popen.wait()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(gone.set_result, code)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()
        return await gone

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                try:
                    size = ipc.length(await reader.readexactly(ipc.LENGTH.size))
                    message = ipc.read_by_supervisor(await reader.readexactly(size))
                except ValueError as error:
                    self._ears.line("stderr", f"perago: a message of the executor cannot be read: {type(error).__name__}")
                    # Nobody would hear the end of its attempt, whose lease would be kept for ever.
                    self.kill()
                    return
                self._ears.message(message)

    async def _listen(self, name: str, pipe: object) -> "tuple[asyncio.ReadTransport, Lines]":
        loop = asyncio.get_running_loop()
        return await loop.connect_read_pipe(lambda: Lines(lambda line: self._ears.line(name, line)), pipe)


def _unread(pipe: int) -> int:
    """How many bytes wait in it."""
    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)
