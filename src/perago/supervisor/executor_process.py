"""One executor process, as the supervisor controls it: starts it under a guardian, exchanges messages with it, and ends it."""

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
from typing import Any

from perago import ipc
from perago.process import child_process, guardian
from perago.process.exit_status import ExitStatus
from perago.process.orphan_reaper import OrphanReaper
from perago.supervisor.output_reader import OutputReader

DRAIN_SECONDS = 2.0
"""Time to read what a dead executor wrote to its channel and its output before it died."""


OnMessage = Callable[[ipc.ToSupervisor], None]
OnLine = Callable[[str, str, Any], None]
"""Called with the name of a stream, one line that the process printed, and what `owner` returned when it was read."""


class ExecutorProcess:
    """Created by `start`. `ended` is done when it and everything that it started have ended and all its messages are handled.

    Both callbacks run in the thread of the event loop.
    """

    def __init__(
        self,
        popen: "subprocess.Popen[bytes]",
        connection: socket.socket,
        guardian_socket: socket.socket,
        on_message: OnMessage,
        on_line: OnLine,
        owner: Callable[[], Any],
        orphan_reaper: OrphanReaper,
    ) -> None:
        self._popen = popen
        self._on_message = on_message
        self._on_line = on_line
        self._owner = owner
        self._orphan_reaper = orphan_reaper
        self._connection = connection
        self._guardian_socket = guardian_socket
        self._writer: asyncio.StreamWriter | None = None
        self.ended: asyncio.Task[ExitStatus] = asyncio.create_task(self._watch())

    @classmethod
    def start(
        cls,
        modules: Sequence[str],
        on_message: OnMessage,
        on_line: OnLine,
        owner: Callable[[], Any],
        orphan_reaper: OrphanReaper,
    ) -> "ExecutorProcess":
        ours, theirs = socket.socketpair()
        guardian_socket, guardian_end = socket.socketpair()
        guardian_socket.setblocking(False)
        with theirs, guardian_end:
            popen = subprocess.Popen(
                child_process.guardian_line(
                    [sys.executable, "-m", "perago.executor.main", str(theirs.fileno()), *modules], pass_fd=theirs.fileno()
                ),
                pass_fds=(theirs.fileno(),),
                stdin=guardian_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                start_new_session=True,
            )
        orphan_reaper.spare(popen.pid)
        return cls(popen, ours, guardian_socket, on_message, on_line, owner, orphan_reaper)

    @property
    def pid(self) -> int:
        """Of the guardian; the executor sends its own pid when it is ready."""
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        return not self.ended.done()

    @property
    def all_output_read(self) -> bool:
        """Whether everything that it has printed so far was read."""
        return not any(pipe is not None and _unread(pipe.fileno()) for pipe in (self._popen.stdout, self._popen.stderr))

    def send(self, message: ipc.ToExecutor) -> None:
        """Send without waiting. A message to a process that has ended is lost; `ended` shows whether it has."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(ipc.encode_for_executor(message))

    def close_channel(self) -> None:
        """Close the channel, upon which the executor exits."""
        if self._writer is not None:
            self._writer.close()

    def interrupt(self) -> None:
        """Send SIGTERM to the executor only."""
        self._order(guardian.INTERRUPT)

    def end_orphans(self) -> None:
        """Kill processes that bodies started and orphaned; children of the executor keep running."""
        self._order(guardian.KILL_ORPHANS)

    def kill(self) -> None:
        """Kill the executor and all its descendants."""
        self._order(guardian.KILL)

    def kill_guardian(self) -> None:
        """For a guardian that does not react. The executor is killed with it, and the orphan reaper kills the rest."""
        self._popen.kill()

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self._guardian_socket.send(order)

    async def _watch(self) -> ExitStatus:
        reader, self._writer = await asyncio.open_connection(sock=self._connection)
        reading = asyncio.create_task(self._read_messages(reader))
        pipes = [await self._read_lines("stdout", self._popen.stdout), await self._read_lines("stderr", self._popen.stderr)]
        code = await self._exit_code()
        self._orphan_reaper.forget(self.pid)
        reported = self._reported_exit_code()
        if reported is None:
            await self._orphan_reaper.kill_orphans()
        await asyncio.wait([reading, *(pipe.closed for _, pipe in pipes)], timeout=DRAIN_SECONDS)
        reading.cancel()
        for pipe, (transport, lines) in zip((self._popen.stdout, self._popen.stderr), pipes, strict=True):
            if pipe is not None and not transport.is_closing():
                lines.read_rest(pipe.fileno())
            transport.close()
        self._writer.close()
        return ExitStatus(code if reported is None else reported)

    def _reported_exit_code(self) -> int | None:
        """The executor's exit code; None from a guardian that was killed before it had ended everything."""
        with self._guardian_socket, contextlib.suppress(OSError):
            return child_process.reported_exit_code(self._guardian_socket.recv(4096))
        return None

    async def _exit_code(self) -> int:
        """The exit code. A thread waits for it, so that no process-wide child handler is needed."""
        loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def wait() -> None:
            code = self._popen.wait()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(ended.set_result, code)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()
        return await ended

    async def _read_messages(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                try:
                    size = ipc.frame_length(await reader.readexactly(ipc.FRAME_HEADER.size))
                    message = ipc.decode_in_supervisor(await reader.readexactly(size))
                except ValueError as error:
                    text = f"perago: cannot read a message from the executor: {type(error).__name__}"
                    self._on_line("stderr", text, self._owner())
                    # Otherwise the end of its attempt would never be read, and the lease would be extended forever.
                    self.kill()
                    return
                self._on_message(message)

    async def _read_lines(self, name: str, pipe: object) -> "tuple[asyncio.ReadTransport, OutputReader]":
        loop = asyncio.get_running_loop()
        return await loop.connect_read_pipe(
            lambda: OutputReader(lambda line, owner: self._on_line(name, line, owner), self._owner), pipe
        )


def _unread(pipe: int) -> int:
    """The number of unread bytes in a pipe."""
    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)
