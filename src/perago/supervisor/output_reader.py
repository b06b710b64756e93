"""Reads what a process prints, line by line, at a rate that leaves the event loop time for leases."""

import asyncio
import collections
import contextlib
import os
from collections.abc import Callable
from typing import Any, cast

LONGEST_LINE = 16 << 10
AT_ONCE = 1000
"""Lines handled in one turn of the event loop. The full pipe slows down a body that prints more; nothing else is delayed."""
PAUSE_SECONDS = 0.05
READ_SIZE = 64 << 10
LARGEST_REST = 1 << 20
"""The largest size of a pipe that a process may choose."""


class OutputReader(asyncio.Protocol):
    """Long lines are split. `closed` is done when everything has been passed on.

    `owner` is asked when bytes are read, and its answer is passed on with their lines: these may be passed on much later.
    """

    def __init__(self, on_line: Callable[[str, Any], None], owner: Callable[[], Any]) -> None:
        self._on_line = on_line
        self._owner = owner
        self._last_owner: Any = None
        self._rest = b""
        self._waiting: collections.deque[tuple[bytes, Any]] = collections.deque()
        self._transport: asyncio.ReadTransport | None = None
        self._is_closed = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > LONGEST_LINE:
            lines.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        is_idle = not self._waiting
        self._last_owner = self._owner()
        self._waiting += ((line, self._last_owner) for line in lines)
        if is_idle:
            self._pass_on_some()

    def read_rest(self, pipe: int) -> None:
        """Read what a process that has ended left in its pipe, before the transport is closed."""
        with contextlib.suppress(OSError):
            for _ in range(LARGEST_REST // READ_SIZE):
                if not (data := os.read(pipe, READ_SIZE)):
                    return
                self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_closed = True
        is_idle = not self._waiting
        if self._rest:
            self._waiting.append((self._rest, self._last_owner))
        if is_idle:
            self._pass_on_some()

    def _pass_on_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            line, owner = self._waiting.popleft()
            self._on_line(line.rstrip(b"\r").decode(errors="backslashreplace"), owner)
        if self._waiting:
            self._set_reading(enabled=False)
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._pass_on_some)
        elif not self._is_closed:
            self._set_reading(enabled=True)
        elif not self.closed.done():
            self.closed.set_result(None)

    def _set_reading(self, *, enabled: bool) -> None:
        if self._transport is None or self._is_closed or self._transport.is_closing():
            return
        if enabled and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not enabled and self._transport.is_reading():
            self._transport.pause_reading()
