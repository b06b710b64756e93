"""Reads what a process prints, line by line, at a rate that leaves the event loop time for leases."""

import asyncio
import collections
from collections.abc import Callable
from typing import cast

LONGEST_LINE = 16 << 10
AT_ONCE = 1000
"""Lines handled in one turn of the event loop. The full pipe slows down a body that prints more; nothing else is delayed."""
PAUSE_SECONDS = 0.05


class OutputReader(asyncio.Protocol):
    """Long lines are split. `closed` is done when everything has been passed on."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""
        self._waiting: collections.deque[bytes] = collections.deque()
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
        self._waiting += lines
        if is_idle:
            self._pass_on_some()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_closed = True
        is_idle = not self._waiting
        if self._rest:
            self._waiting.append(self._rest)
        if is_idle:
            self._pass_on_some()

    def _pass_on_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self._on_line(self._waiting.popleft().rstrip(b"\r").decode(errors="backslashreplace"))
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
