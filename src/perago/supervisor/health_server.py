"""A small HTTP server in the supervisor's own loop: /metrics, /healthz (the event loop runs), /readyz (it can take a task)."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from perago.errors import RuntimeConfigError
from perago.supervisor.metrics import CONTENT_TYPE

_TIMEOUT_SECONDS = 5.0
_LARGEST_REQUEST = 16 << 10


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the worker takes tasks, and a line that says why not, or which tasks it does not take."""

    is_ready: bool
    text: str


def readiness(  # noqa: PLR0911  one reason each
    *, is_stopping: bool, is_starting: bool, conductor_is_up: bool, can_run: bool, lakefs_is_up: bool, all_need_lakefs: bool
) -> Readiness:
    """A worker that only restarts executors is not ready; one whose tasks do not all need lakeFS is ready without it."""
    if is_stopping:
        return Readiness(is_ready=False, text="not ready: the worker is stopping")
    if is_starting:
        return Readiness(is_ready=False, text="not ready: the worker is starting")
    if not conductor_is_up:
        return Readiness(is_ready=False, text="not ready: Conductor cannot be reached")
    if not can_run:
        return Readiness(is_ready=False, text="not ready: no executor is running")
    if lakefs_is_up:
        return Readiness(is_ready=True, text="ready")
    if all_need_lakefs:
        return Readiness(is_ready=False, text="not ready: lakeFS does not respond")
    return Readiness(is_ready=True, text="ready, except for tasks with a workspace: lakeFS does not respond")


class HealthServer:
    def __init__(self, render: Callable[[], bytes], readiness: Callable[[], Readiness]) -> None:
        self._render = render
        self._readiness = readiness
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
                found = self._readiness()
                return _reply("200 OK" if found.is_ready else "503 Service Unavailable", f"{found.text}\n".encode())
            case _:
                return _reply("404 Not Found", b"/metrics, /healthz or /readyz\n")


def _reply(status: str, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("latin-1") + body
