"""Requests to Conductor: a thread-safe pool, a timeout on every request, errors translated once with their cause kept."""

import json
import random
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from perago.errors import (
    ConductorError,
    ConductorNotFound,
    ConductorRejected,
    ConductorUnavailable,
    ConductorUnknown,
    RuntimeConfigError,
)
from perago.http import http1

READ_TRIES = 3
_BACKOFF = 0.1
_NOT_FOUND, _UNAUTHORISED, _TOO_MANY, _SERVER_ERROR = 404, 401, 429, 500
_GATEWAY = {502, 504}
"""Said by somebody between us and Conductor, who lost sight of the request."""
MAX_REPLY = 64 * 1024 * 1024
"""No reply that we ask for comes near it; whoever sends more is not Conductor."""


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    data: bytes


class Http:
    """One base address and, where the server asks for it, a token that is fetched again when it has run out."""

    def __init__(self, url: str, *, timeout: float, connections: int, auth: tuple[str, str] | None) -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._auth = auth
        self._token: str | None = None
        self._token_lock = threading.Lock()
        self._origin, self._base = _address(self.url)
        self._pool = http1.Pool(None, timeout, connections)

    def close(self) -> None:
        self._pool.close()

    def read(self, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        """A request without effect: tried a few times, with jitter, where trying again may help."""
        for tries_left in reversed(range(READ_TRIES)):
            try:
                return self._call("GET", path, query=query, writes=False)
            except ConductorUnavailable:
                if not tries_left:
                    raise
                time.sleep(_BACKOFF * (READ_TRIES - tries_left) * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

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
        """A request with an effect: sent once. `ConductorUnknown` where it broke off."""
        data = text.encode() if text is not None else _encode(body)
        return self._call(method, path, query=query, data=data, writes=True, timeout=timeout)

    def _call(
        self,
        method: str,
        path: str,
        *,
        writes: bool,
        query: Mapping[str, str] | None = None,
        data: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        target = f"{path}?{urlencode(query)}" if query else path
        token = self._current_token()
        response = self._send(method, target, data, token, writes, timeout)
        if response.status == _UNAUTHORISED and self._auth is not None:
            response = self._send(method, target, data, self._new_token(instead_of=token), writes, timeout)
        if response.status >= 400:  # noqa: PLR2004 - HTTP's first error status
            raise _refusal(method, path, response.status, response.data, writes=writes)
        return _decode(method, path, response.data)

    def _send(
        self, method: str, target: str, data: bytes | None, token: str | None, writes: bool, timeout: float | None
    ) -> _Reply:
        try:
            return self._exchange(self._text(method, target, data, token), self._timeout if timeout is None else timeout)
        except http1.Broken as error:
            path = target.partition("?")[0]
            if writes and error.stage is not http1.Stage.CONNECTING:
                raise ConductorUnknown(
                    f"Conductor broke off {method} {path} ({error.why}): whether it acted is unknown"
                ) from error
            raise ConductorUnavailable(f"Conductor at {self.url} does not answer {method} {path}: {error.why}") from error

    def _exchange(self, text: bytes, timeout: float) -> _Reply:
        deadline = http1.Deadline(timeout)
        connection = self._pool.take(self._origin, deadline)
        try:
            connection.send(text, deadline)
            head = connection.head(deadline)
            return _Reply(head.status, _whole(connection.body(head, deadline)))
        except BaseException:
            connection.reusable = False
            raise
        finally:
            self._pool.give(connection)

    def _text(self, method: str, target: str, data: bytes | None, token: str | None) -> bytes:
        login = f"X-Authorization: {token}\r\n" if token is not None else ""
        body = data or b""
        length = f"Content-Length: {len(body)}\r\n" if method != "GET" else ""
        return (
            f"{method} {self._base}{target} HTTP/1.1\r\nHost: {self._origin.authority}\r\nUser-Agent: perago\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\n{login}{length}\r\n"
        ).encode() + body

    def _current_token(self) -> str | None:
        return self._token or (self._new_token(instead_of=None) if self._auth else None)

    def _new_token(self, *, instead_of: str | None) -> str | None:
        """One thread fetches it, the others wait and use the same."""
        with self._token_lock:
            if self._token is None or self._token == instead_of:
                self._token = self._fetch_token()
            return self._token

    def _fetch_token(self) -> str:
        assert self._auth is not None  # noqa: S101 - only called with credentials
        body = _encode({"keyId": self._auth[0], "keySecret": self._auth[1]})
        response = self._send("POST", "/token", body, None, writes=False, timeout=None)
        if response.status >= _SERVER_ERROR:
            raise _refusal("POST", "/token", response.status, b"", writes=False)
        if response.status == _NOT_FOUND:
            raise ConductorRejected(
                "Conductor has nothing that takes CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET (HTTP 404); "
                "unset them for a server without authentication, or correct CONDUCTOR_SERVER_URL"
            )
        if response.status >= 400:  # noqa: PLR2004 - as above
            raise ConductorRejected(f"Conductor refuses CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET (HTTP {response.status})")
        answer = _decode("POST", "/token", response.data)
        if not isinstance(answer, dict) or not isinstance(answer.get("token"), str):  # pyright: ignore[reportUnknownMemberType]
            raise ConductorRejected("Conductor's token endpoint answered without a token")
        return str(answer["token"])  # pyright: ignore[reportUnknownArgumentType]


def _whole(body: Iterable[memoryview]) -> bytes:
    data = bytearray()
    for part in body:
        data += part
        if len(data) > MAX_REPLY:
            raise http1.Broken(http1.Stage.SENT, f"a reply of more than {MAX_REPLY >> 20} MiB")
    return bytes(data)


def _address(url: str) -> tuple[http1.Origin, str]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RuntimeConfigError("CONDUCTOR_SERVER_URL must look like http://host:port/api")
    origin = http1.Origin(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    return origin, parts.path.rstrip("/")


def _refusal(method: str, path: str, status: int, data: bytes, *, writes: bool) -> ConductorError:
    said = _message(data)
    line = f"Conductor answered {status} to {method} {path}{': ' + said if said else ''}"
    if status == _NOT_FOUND:
        return ConductorNotFound(line)
    if writes and status in _GATEWAY:
        return ConductorUnknown(f"{line}: whether it acted is unknown")
    return ConductorUnavailable(line) if status == _TOO_MANY or status >= _SERVER_ERROR else ConductorRejected(line)


def _message(data: bytes) -> str:
    """Conductor's own sentence, on one line and not too long."""
    try:
        said: Any = json.loads(data)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return " ".join(str(said).split())[:300]


def _encode(body: object | None) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ConductorRejected(f"what is to be sent to Conductor is not JSON: {error}") from error


def _decode(method: str, path: str, data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        # Some answers are a bare id; a page of HTML is somebody else's server.
        text = data.decode(errors="replace").strip()
        if text.startswith("<"):
            raise ConductorRejected(
                f"{method} {path} was answered with a web page; does CONDUCTOR_SERVER_URL name Conductor's API?"
            ) from None
        return text
