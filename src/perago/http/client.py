"""HTTP client for one server: sends a request and returns the value that a receiver makes of the reply, or raises one error.

Reads are tried again a few times, with growing, jittered pauses. A write is sent once. Many small requests can be
pipelined on one connection.
"""

import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Protocol, TypeVar

from perago.http.connection import Deadline, HttpConnection
from perago.http.failure import ConnectionBroken, ErrorTable, RequestFailure, RequestStage
from perago.http.pool import ConnectionPool
from perago.http.request import HttpRequest, Origin, Receive, ReplyHead, RequestRecord
from perago.process.backoff import Backoff

READ_TRIES = 4
LONGEST_PAUSE = 5.0
_BACKOFF = Backoff(first=0.2, longest=LONGEST_PAUSE, jitter=(0.5, 1.0))
IDLE_CONNECTIONS = 64
"""Kept per server, so that as many threads can send requests without reconnecting."""
UNPIPELINED_SECONDS = 60.0
"""How long pipelining is avoided after a broken connection."""
_MAX_REFUSAL = 64 * 1024

T = TypeVar("T")

SendBody = Callable[[HttpConnection, Deadline], None]
"""Sends a body after the head of its request, which states its length."""


def send_nothing(_connection: HttpConnection, _deadline: Deadline) -> None:
    """For requests that contain their whole body."""


def ignore_record(_record: RequestRecord) -> None:
    """For clients whose requests are not counted."""


class Login(Protocol):
    """Provides the header that authenticates us to the client's server."""

    def header(self, client: "HttpClient", /) -> str:
        """A header line that ends with CRLF, or nothing."""
        ...

    def renewed(self, client: "HttpClient", refused: str, /) -> str | None:
        """The header to use instead of `refused`, which got a 401; None if there is no other."""
        ...


class FixedLogin:
    """One header for all requests."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    def header(self, _client: "HttpClient", /) -> str:
        return self._header

    def renewed(self, _client: "HttpClient", _refused: str, /) -> str | None:
        return None


class HttpClient:
    """Safe to share between threads; each connection is used by one of them at a time and kept alive.

    `base` is the path below which the server's targets are. `on_request` is called for each request as it was sent.
    """

    def __init__(  # noqa: PLR0913  most have defaults
        self,
        origin: Origin,
        base: str,
        errors: ErrorTable,
        *,
        connect_timeout: float,
        login: Login,
        read_tries: int = READ_TRIES,
        idle_connections: int = IDLE_CONNECTIONS,
        on_request: Callable[[RequestRecord], None] = ignore_record,
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._origin = origin
        self._base = base
        self._errors = errors
        self._login = login
        self._read_tries = read_tries
        self._pool = ConnectionPool(tls, connect_timeout, idle_connections)
        self._on_request = on_request
        self._pause = pause
        self._pipeline_again_at = 0.0

    def close(self) -> None:
        """Close the idle connections; the client stays usable."""
        self._pool.close()

    def call(self, request: HttpRequest, receive: Receive[T], send: SendBody = send_nothing) -> T:
        """Send the request; a read is retried where that may help. Raises the error of the last try."""
        result = self.attempt(request, receive, send)
        if isinstance(result, RequestFailure):
            raise result.error
        return result

    def attempt(self, request: HttpRequest, receive: Receive[T], send: SendBody = send_nothing) -> T | RequestFailure:
        """As `call`, but returns the failure."""
        if request.write:
            return self.once(request, receive, send)
        give_up_at = time.monotonic() + 2 * request.timeout
        for number in range(1, self._read_tries + 1):
            result = self.once(request, receive, send)
            if not isinstance(result, RequestFailure) or not result.retry:
                return result
            if number == self._read_tries or time.monotonic() >= give_up_at:
                return result
            self._pause(min(LONGEST_PAUSE, max(result.after, _BACKOFF.pause(number))))
        raise AssertionError("unreachable: the last try returns")

    def once(self, request: HttpRequest, receive: Receive[T], send: SendBody = send_nothing) -> T | RequestFailure:
        """Send the request once. After a 401 a new login is tried: the server refused the request, so it did nothing."""
        login = "" if request.anonymous or request.origin is not None else self._login.header(self)
        result = self._recorded(request, login, receive, send)
        if login and isinstance(result, RequestFailure) and result.status == HTTPStatus.UNAUTHORIZED:
            renewed = self._login.renewed(self, login)
            return result if renewed is None else self._recorded(request, renewed, receive, send)
        return result

    def pipeline(self, calls: Sequence[tuple[HttpRequest, Receive[T]]], timeout: float) -> Iterator[T | RequestFailure]:
        """Send all requests on one connection, then yield their results in order; ends after the first failure.

        The requests after it were sent too, so it is unknown whether their writes took effect. May also send nothing and end
        without results: a proxy may not support pipelining, so it is avoided for a minute after a broken connection.
        """
        if len(calls) < 2 or time.monotonic() < self._pipeline_again_at:  # noqa: PLR2004  one alone gains nothing
            return
        began, statuses = time.monotonic(), list[int]()
        try:
            yield from self._exchange_all(calls, timeout, statuses)
        except ConnectionBroken as error:
            self._pipeline_again_at = time.monotonic() + UNPIPELINED_SECONDS
            if error.stage is RequestStage.SENDING:
                error.stage = RequestStage.SENT  # the first requests may be complete: see `may_have_happened`
            yield self._errors.broken(calls[min(len(statuses), len(calls) - 1)][0], error).caused_by(error)
        finally:
            seconds = time.monotonic() - began
            for number, (request, _) in enumerate(calls):
                status = statuses[number] if number < len(statuses) else None
                self._on_request(RequestRecord(request.verb, request.method, status, seconds))

    def _recorded(self, request: HttpRequest, login: str, receive: Receive[T], send: SendBody) -> T | RequestFailure:
        began = time.monotonic()
        statuses: list[int] = []
        try:
            return self._exchange(request, login, receive, send, statuses)
        except ConnectionBroken as error:
            return self._errors.broken(request, error).caused_by(error)
        finally:
            status = statuses[0] if statuses else None
            self._on_request(RequestRecord(request.verb, request.method, status, time.monotonic() - began))

    def _exchange(
        self, request: HttpRequest, login: str, receive: Receive[T], send: SendBody, statuses: list[int]
    ) -> T | RequestFailure:
        deadline = Deadline(request.timeout, request.stall)
        connection = self._pool.acquire(request.origin or self._origin, deadline)
        try:
            head = send_request(connection, self._text(request, login), send, deadline)
            statuses.append(head.status)
            return self._result(request, receive, head, connection.body(head, deadline))
        except BaseException:
            connection.reusable = False
            raise
        finally:
            self._pool.release(connection)

    def _exchange_all(
        self, calls: Sequence[tuple[HttpRequest, Receive[T]]], timeout: float, statuses: list[int]
    ) -> Iterator[T | RequestFailure]:
        login = self._login.header(self)
        deadline = Deadline(timeout, calls[0][0].stall)
        connection = self._pool.acquire(self._origin, deadline)
        unread = len(calls)
        try:
            connection.send(b"".join(self._text(request, login) for request, _ in calls), deadline)
            for request, receive in calls:
                head = connection.head(deadline)
                result = self._result(request, receive, head, connection.body(head, deadline))
                statuses.append(head.status)
                yield result
                if isinstance(result, RequestFailure):
                    return
                unread -= 1
        finally:
            connection.reusable = connection.reusable and not unread
            self._pool.release(connection)

    def _text(self, request: HttpRequest, login: str) -> bytes:
        target = f"{self._base}{request.target}" if request.origin is None else request.target
        return request_text(request.method, request.origin or self._origin, target, f"{login}{request.headers}", request.body)

    def _result(
        self, request: HttpRequest, receive: Receive[T], head: ReplyHead, body: Iterable[memoryview]
    ) -> T | RequestFailure:
        if not 200 <= head.status < 300:  # noqa: PLR2004  the 2xx
            return self._errors.refused(request, head.status, head.headers, _beginning(body))
        try:
            return receive(head, body)
        except self._errors.retried as error:
            return RequestFailure(error, retry=True, status=head.status)
        except (ValueError, KeyError, TypeError) as error:
            return self._errors.malformed(request, f"{type(error).__name__}: {error}"[:200]).caused_by(error)


def request_text(method: str, origin: Origin, target: str, headers: str, body: bytes = b"") -> bytes:
    """A request as it is sent; `headers` are lines that end with CRLF."""
    return f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\nUser-Agent: perago\r\n{headers}\r\n".encode() + body


def send_request(connection: HttpConnection, text: bytes, send: SendBody, deadline: Deadline) -> ReplyHead:
    """Send, then read the head of the reply. A server may refuse a request, and close, before it has read all of it."""
    try:
        connection.send(text, deadline)
        send(connection, deadline)
    except ConnectionBroken:
        if (head := _early_refusal(connection, deadline)) is None:
            raise
        return head
    return connection.head(deadline)


def _early_refusal(connection: HttpConnection, deadline: Deadline) -> ReplyHead | None:
    """The error reply of a server that stopped reading. Any other reply to an incomplete request is ignored."""
    if not connection.has_input():
        return None
    try:
        head = connection.head(deadline)
    except ConnectionBroken:
        return None
    return head if head.status >= HTTPStatus.BAD_REQUEST else None


def _beginning(body: Iterable[memoryview]) -> bytes:
    """The beginning of an error reply, to quote it. Its status is valid even if the connection breaks now."""
    text = bytearray()
    try:
        for part in body:
            text += part
            if len(text) > _MAX_REFUSAL:
                break
    except ConnectionBroken:
        pass
    return bytes(text)
