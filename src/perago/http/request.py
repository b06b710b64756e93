"""Requests as values, and functions that receive replies."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

MAX_REPLY = 64 * 1024 * 1024
"""Longest reply, in bytes, that is kept in memory. Replies of lakeFS and Conductor are much shorter."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: scheme, host and port."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port in the form of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def split_url(url: str) -> tuple[Origin, str]:
    """The origin of an http(s) URL, and the rest of it: path and query. `ValueError` for any other URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http or https URL")
    origin = Origin(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    return origin, f"{parts.path}?{parts.query}" if parts.query else parts.path


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """Seconds. A request's deadline covers it from connecting to the reply's last byte; transfers get more, by their size."""

    connect: float
    request: float
    slowest: int = 64 * 1024
    """Bytes per second below which a transfer is aborted."""

    def transfer(self, size: int) -> float:
        return self.request + size / self.slowest


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`what` names the request in error messages. `target` is path and query, below the base path of the client's server."""

    verb: str
    what: str
    method: str
    target: str
    timeout: float
    headers: str = ""
    """Lines that end with CRLF. A request with a body states its length here."""
    body: bytes = b""
    write: bool = False
    """Has an effect, so it is sent only once."""
    stall: float = math.inf
    """Seconds without any progress after which a long transfer is aborted before its deadline."""
    anonymous: bool = False
    """Sent without our credentials."""
    origin: Origin | None = None
    """Another server, such as an object store; `target` is then complete. Our credentials are never sent there."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as it was sent, retries counted one by one. `status` is None if there was no reply."""

    verb: str
    method: str
    status: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """Status and headers of a reply, names in lower case. `length`: None for chunks, -1 if the body ends with the connection."""

    status: int
    headers: Mapping[str, str]
    length: int | None


Receive = Callable[[ReplyHead, Iterable[memoryview]], T]
"""Turns a 2xx reply into a value. `ValueError`, `KeyError` and `TypeError` mean that the reply cannot be understood."""


def read_all(body: Iterable[memoryview], limit: int = MAX_REPLY) -> bytes:
    """A body that fits into memory; `ValueError` for more than `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    for part in body:
        size += len(part)
        if size > limit:
            raise ValueError(f"more than {limit} bytes")
        parts.append(bytes(part))
    return b"".join(parts)


def receive_object(_head: ReplyHead, body: Iterable[memoryview]) -> dict[str, Any]:
    """Receives a JSON object."""
    decoded: Any = json.loads(read_all(body))
    if not isinstance(decoded, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the reply is wrong, not our call
    return decoded  # pyright: ignore[reportUnknownVariableType]  JSON keys are strings


def receive_nothing(_head: ReplyHead, body: Iterable[memoryview]) -> None:
    """Receives a reply of which only the status matters."""
    read_all(body)
