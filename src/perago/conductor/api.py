"""Conductor's REST API: JSON requests and their replies, with the login, timeouts and errors of Conductor."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from perago.conductor import error_mapping
from perago.conductor.login import TokenLogin
from perago.errors import ConductorRejected, RuntimeConfigError
from perago.http import request
from perago.http.client import FixedLogin, HttpClient
from perago.http.request import HttpRequest, Receive

READ_TRIES = 3
_HEADERS = "Accept: application/json\r\nContent-Type: application/json\r\n"


class ConductorApi:
    """One base address; safe to share between threads. `auth` is a key and its secret, for servers with authentication."""

    def __init__(self, url: str, *, timeout: float, connections: int, auth: tuple[str, str] | None) -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout
        try:
            origin, base = request.split_url(self.url)
        except ValueError:
            raise RuntimeConfigError("CONDUCTOR_SERVER_URL must look like http://host:port/api") from None
        self._http = HttpClient(
            origin,
            base,
            error_mapping.table(self.url),
            connect_timeout=timeout,
            login=FixedLogin() if auth is None else TokenLogin(*auth, timeout),
            read_tries=READ_TRIES,
            idle_connections=connections,
        )

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        """A request without effect: tried again where that may help."""
        return self._call("GET", path, query, None, self._timeout, write=False)

    def write(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        text: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """A request with an effect, sent once, with `body` as JSON or with `text` as it is."""
        data = text.encode() if text is not None else _encode(body)
        return self._call(method, path, query, data, self._timeout if timeout is None else timeout, write=True)

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, timeout: float, *, write: bool
    ) -> Any:
        what = f"{method} {path}"
        target = f"{path}?{urlencode(query)}" if query else path
        body = data or b""
        headers = _HEADERS if method == "GET" else f"{_HEADERS}Content-Length: {len(body)}\r\n"
        return self._http.call(HttpRequest(what, what, method, target, timeout, headers, body, write=write), _decoded(what))


def _encode(body: object | None) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ConductorRejected(f"what is to be sent to Conductor is not JSON: {error}") from error


def _decoded(what: str) -> Receive[Any]:
    return lambda _head, body: _decode(what, request.read_all(body))


def _decode(what: str, data: bytes) -> Any:
    """JSON, or text: Conductor answers some writes with a bare id. A web page comes from another server."""
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        text = data.decode(errors="replace").strip()
        if text.startswith("<"):
            raise ConductorRejected(
                f"{what} was answered with a web page; does CONDUCTOR_SERVER_URL name Conductor's API?"
            ) from None
        return text
