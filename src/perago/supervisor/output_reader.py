"""What a process prints, as lines: bytes of a pipe in, text out, at a rate that leaves the loop time for leases."""

import asyncio
import collections
from collections.abc import Callable
from typing import cast

LONGEST_LINE = 16 << 10
AT_ONCE = 1000
"""Lines said in one turn of the loop. A body that prints more without end waits for its pipe, and nobody else waits for it."""
PAUSE_SECONDS = 0.05


class Lines(asyncio.Protocol):
    """Endless lines are cut. `closed` is done when everything has been said."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._rest = b""
        self._waiting: collections.deque[bytes] = collections.deque()
        self._transport: asyncio.ReadTransport | None = None
        self._is_over = False
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
            self._say_some()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_over = True
        is_idle = not self._waiting
        if self._rest:
            self._waiting.append(self._rest)
        if is_idle:
            self._say_some()

    def _say_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self._heard(self._waiting.popleft().rstrip(b"\r").decode(errors="backslashreplace"))
        if self._waiting:
            self._read(go_on=False)
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._say_some)
        elif not self._is_over:
            self._read(go_on=True)
        elif not self.closed.done():
            self.closed.set_result(None)

    def _read(self, *, go_on: bool) -> None:
        if self._transport is None or self._is_over or self._transport.is_closing():
            return
        if go_on and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not go_on and self._transport.is_reading():
            self._transport.pause_reading()
