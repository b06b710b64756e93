"""A small HTTP server in the supervisor's own loop: /metrics, /healthz (the event loop runs), /readyz (it can take a task)."""

import asyncio
import contextlib
import os
from collections.abc import Callable

from perago.errors import RuntimeConfigError
from perago.supervisor.metrics import CONTENT_TYPE

_TIMEOUT_SECONDS = 5.0
_LARGEST_REQUEST = 16 << 10


class HealthServer:
    def __init__(self, render: Callable[[], bytes], is_ready: Callable[[], bool]) -> None:
        self._render = render
        self._is_ready = is_ready
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_LARGEST_REQUEST)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise RuntimeConfigError(
                f"--metrics-port {port} on --metrics-host {host} cannot be used: {why}; choose another"
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _TIMEOUT_SECONDS)
            writer.write(self._answer(head.split(b"\r\n", 1)[0].decode("latin-1")))
            await asyncio.wait_for(writer.drain(), _TIMEOUT_SECONDS)
        writer.close()

    def _answer(self, request: str) -> bytes:
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            return _reply("405 Method Not Allowed", b"only GET\n")
        match path:
            case "/metrics":
                return _reply("200 OK", self._render(), CONTENT_TYPE)
            case "/healthz":
                return _reply("200 OK", b"ok\n")
            case "/readyz":
                return _reply("200 OK", b"ready\n") if self._is_ready() else _reply("503 Service Unavailable", b"not ready\n")
            case _:
                return _reply("404 Not Found", b"/metrics, /healthz or /readyz\n")


def _reply(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("latin-1") + body
