"""Requests to one server: a `Request` goes in, what its receiver made of the reply comes out, or one error of our tree.

Reads are tried again a few times, with growing, jittered pauses. A write is sent once. Many small reads can share one connection
without waiting for each other.
"""

import json
import math
import random
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

from perago.errors import LakeCorrupt, RuntimeConfigError
from perago.http import http1
from perago.lake import error_mapping
from perago.lake.error_mapping import Refusal

TRIES = 4
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
MAX_REPLY = 64 * 1024 * 1024
"""No JSON we ask for comes near it; whoever sends more is not lakeFS."""
KEPT = 64
"""Idle connections per server; as many threads can work at once without connecting anew."""
ONE_BY_ONE_SECONDS = 60.0
_MAX_REFUSAL = 64 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. A request's deadline covers it from connecting to the reply's last byte; transfers get more, by their size."""

    connect: float
    request: float
    slowest: int = 64 * 1024
    """Bytes per second below which a transfer is given up."""

    def transfer(self, size: int) -> float:
        return self.request + size / self.slowest


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as it was really sent. `status` is None where no answer came."""

    verb: str
    method: str
    status: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Request:
    """`what` begins every error message: what we tried, and on which repository, branch or object."""

    verb: str
    what: str
    method: str
    target: str
    timeout: float
    headers: str = ""
    body: bytes = b""
    write: bool = False
    stall: float = math.inf
    """Seconds without any progress after which a long transfer is given up before its deadline."""
    anonymous: bool = False
    """Do not say who we are: the target carries a signature of its own."""


Send = Callable[[http1.Connection, http1.Deadline], None]
"""Sends the rest of a body after the request's head; its length is in the request's headers."""
Receive = Callable[[http1.Head, Iterable[memoryview]], T]
"""Makes something of a 2xx reply. `ValueError` means that it is not what was asked for."""


def nothing_more(_connection: http1.Connection, _deadline: http1.Deadline) -> None:
    """For requests that are complete in themselves."""


class Http:
    """Safe to share between threads; a connection is used by one of them at a time and kept alive."""

    def __init__(
        self,
        url: str,
        authorization: str,
        timeouts: Timeouts,
        *,
        on_request: Callable[[RequestRecord], None],
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.origin = origin(url)
        self._authorization = f"Authorization: {authorization}\r\n"
        self._pool = http1.Pool(tls, timeouts.connect, KEPT)
        self._on_request = on_request
        self._pause = pause
        self._one_by_one_until = 0.0

    def call(self, request: Request, receive: Receive[T], send: Send = nothing_more) -> T:
        """Send the request to lakeFS; reads again where that may help."""
        tries = 1 if request.write else TRIES
        deadline = http1.Deadline(2 * request.timeout)
        for attempt in range(1, tries + 1):
            result = self.once(request, self.origin, receive, send)
            if not isinstance(result, Refusal):
                return result
            if attempt == tries or not result.again or deadline.passed():
                raise result.error
            self._pause(min(LONGEST_PAUSE, max(result.after, FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.0))))  # noqa: S311  jitter
        raise AssertionError("unreachable: the last try returns or raises")

    def once(self, request: Request, origin: http1.Origin, receive: Receive[T], send: Send = nothing_more) -> T | Refusal:
        """Send the request to any origin, once. Only lakeFS itself is told who we are."""
        began = time.monotonic()
        seen: list[int] = []
        try:
            return self._exchange(request, origin, receive, send, seen)
        except http1.Broken as error:
            refusal = error_mapping.broken(request.what, write=request.write, error=error)
            refusal.error.__cause__ = error
            return refusal
        finally:
            status = seen[0] if seen else None
            self._on_request(RequestRecord(request.verb, request.method, status, time.monotonic() - began))

    def together(self, calls: Sequence[tuple[Request, Receive[T]]], timeout: float) -> Iterator[T | Refusal]:
        """Requests sent to lakeFS in one go, their results in order as the replies come; ends after the first `Refusal`.

        What then is left has been sent too, and of a write it is not known whether it happened. May also end before the first
        result, with nothing sent: after a broken connection this way is not taken for a while, as some proxy may not bear it.
        """
        if len(calls) < 2 or time.monotonic() < self._one_by_one_until:  # noqa: PLR2004  one alone gains nothing
            return
        began, statuses = time.monotonic(), list[int]()
        try:
            yield from self._in_turn(calls, timeout, statuses)
        except http1.Broken as error:
            self._one_by_one_until = time.monotonic() + ONE_BY_ONE_SECONDS
            yield _broken(calls[min(len(statuses), len(calls) - 1)][0], error)
        finally:
            seconds = time.monotonic() - began
            for number, (request, _) in enumerate(calls):
                status = statuses[number] if number < len(statuses) else None
                self._on_request(RequestRecord(request.verb, request.method, status, seconds))

    def close(self) -> None:
        self._pool.close()

    def _in_turn(self, calls: Sequence[tuple[Request, Receive[T]]], timeout: float, statuses: list[int]) -> Iterator[T | Refusal]:
        deadline = http1.Deadline(timeout, calls[0][0].stall)
        connection = self._pool.take(self.origin, deadline)
        unread = len(calls)
        try:
            connection.send(b"".join(self._text(self.origin, request) for request, _ in calls), deadline)
            for request, receive in calls:
                head = connection.head(deadline)
                result = _result(request, receive, head, connection.body(head, deadline))
                statuses.append(head.status)
                yield result
                if isinstance(result, Refusal):
                    return
                unread -= 1
        finally:
            connection.reusable = connection.reusable and not unread
            self._pool.give(connection)

    def _exchange(self, request: Request, origin: http1.Origin, receive: Receive[T], send: Send, seen: list[int]) -> T | Refusal:
        deadline = http1.Deadline(request.timeout, request.stall)
        connection = self._pool.take(origin, deadline)
        try:
            head = self._head(connection, request, send, deadline)
            seen.append(head.status)
            return _result(request, receive, head, connection.body(head, deadline))
        except BaseException:
            connection.reusable = False
            raise
        finally:
            self._pool.give(connection)

    def _head(self, connection: http1.Connection, request: Request, send: Send, deadline: http1.Deadline) -> http1.Head:
        """Send, then read the reply's head. A server that refuses early answers and closes without reading on to the end."""
        try:
            connection.send(self._text(connection.origin, request), deadline)
            send(connection, deadline)
        except http1.Broken:
            if (head := _early_refusal(connection, deadline)) is None:
                raise
            return head
        return connection.head(deadline)

    def _text(self, origin: http1.Origin, request: Request) -> bytes:
        trusted = "" if request.anonymous or origin != self.origin else self._authorization
        return (
            f"{request.method} {request.target} HTTP/1.1\r\nHost: {origin.authority}\r\nUser-Agent: perago\r\n"
            f"{trusted}{request.headers}\r\n"
        ).encode() + request.body


def _early_refusal(connection: http1.Connection, deadline: http1.Deadline) -> http1.Head | None:
    """What the server said before it stopped reading. Anything but a refusal would be about half a request, so worth nothing."""
    if not connection.answered():
        return None
    try:
        head = connection.head(deadline)
    except http1.Broken:
        return None
    return head if head.status >= HTTPStatus.BAD_REQUEST else None


def _result(request: Request, receive: Receive[T], head: http1.Head, body: Iterable[memoryview]) -> T | Refusal:
    if not 200 <= head.status < 300:  # noqa: PLR2004  the 2xx
        return error_mapping.refused(request.what, write=request.write, head=head, body=_beginning(body))
    try:
        return receive(head, body)
    except LakeCorrupt as error:
        return Refusal(error, again=True)
    except (ValueError, KeyError, TypeError) as error:
        refusal = error_mapping.malformed(request.what, write=request.write, why=f"{type(error).__name__}: {error}"[:200])
        refusal.error.__cause__ = error
        return refusal


def _broken(request: Request, error: http1.Broken) -> Refusal:
    """Of requests sent in one go the first may have been acted on before the last one was sent."""
    if error.stage is http1.Stage.SENDING:
        error.stage = http1.Stage.SENT
    refusal = error_mapping.broken(request.what, write=request.write, error=error)
    refusal.error.__cause__ = error
    return refusal


def _beginning(body: Iterable[memoryview]) -> bytes:
    """Enough of a refusal to quote. Its status holds even if the connection breaks now."""
    text = bytearray()
    try:
        for part in body:
            text += part
            if len(text) > _MAX_REFUSAL:
                break
    except http1.Broken:
        pass
    return bytes(text)


def origin(url: str) -> http1.Origin:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RuntimeConfigError("the lakeFS address must look like http://host:port or https://host")
    return http1.Origin(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))


def whole(body: Iterable[memoryview], limit: int = MAX_REPLY) -> bytes:
    """A body that fits into memory."""
    parts: list[bytes] = []
    size = 0
    for part in body:
        size += len(part)
        if size > limit:
            raise ValueError(f"more than {limit} bytes")
        parts.append(bytes(part))
    return b"".join(parts)


def reply(_head: http1.Head, body: Iterable[memoryview]) -> dict[str, Any]:
    """Receives a JSON object."""
    decoded: Any = json.loads(whole(body))
    if not isinstance(decoded, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the reply is wrong, not our call
    return decoded  # pyright: ignore[reportUnknownVariableType]  JSON keys are strings


def acknowledged(_head: http1.Head, body: Iterable[memoryview]) -> None:
    """Receives a reply whose status says it all."""
    whole(body)
