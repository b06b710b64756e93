"""A proxy between a worker and Conductor that holds back one report, so that the worker can be killed at that moment."""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable
from typing import Any

from perago.http.failure import ConnectionBroken
from perago.http.fetch import HttpReply, fetch

_TIMEOUT_SECONDS = 90.0
_REPORTS = ("/tasks", "/tasks/update-v2")
_FORWARDED_HEADERS = ("Content-Type", "Authorization", "X-Authorization", "Accept")


class ReportInterceptor:
    """Listens on a free local port. `is_wanted` gets the JSON of each report; the first for which it is true is held back."""

    def __init__(self, conductor_url: str, is_wanted: Callable[[dict[str, Any]], bool]) -> None:
        self.caught = threading.Event()
        """Set when the report has arrived and is held back."""
        self.released = threading.Event()
        self._base = conductor_url.removesuffix("/api")
        self._is_wanted = is_wanted
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="report-interceptor", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/api"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def passes(self, method: str, path: str, body: bytes) -> bool:
        """Whether to forward the request. For the wanted report, false, once `released` is set."""
        if method != "POST" or not path.endswith(_REPORTS) or self.caught.is_set() or not self._is_wanted(json.loads(body)):
            return True
        self.caught.set()
        self.released.wait()
        return False

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> HttpReply:
        return fetch(self._base + path, timeout=_TIMEOUT_SECONDS, method=method, headers=headers, body=body)

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        interceptor = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                # A worker that is killed resets its connections, also those between two requests.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if not interceptor.passes(self.command, self.path, body):
                    self.close_connection = True
                    return
                headers = {name: self.headers[name] for name in _FORWARDED_HEADERS if name in self.headers}
                try:
                    reply = interceptor.forward(self.command, self.path, body, headers)
                except ConnectionBroken:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.headers.get("content-type", "application/json"))
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815  names that the base class looks for

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class has it
                """The demo needs no access log."""

        return Handler
