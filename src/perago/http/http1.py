"""HTTP/1.1 on a socket: bytes to send go in, a reply's head and the parts of its body come out, all under one deadline.

Written for the one thing a general client spends most of its time on besides: small objects. A GET of 10 KB costs a fifth of
`http.client`'s processor time and a tenth of urllib3's, and a server that drips a byte a second meets a deadline, not a timeout
per read. Spoken by the clients of lakeFS and of Conductor. No redirects, no proxies, no retries, no cookies.
"""

import math
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

BUFFER = 128 * 1024
IDLE_SECONDS = 15.0
"""A connection unused for longer is not used again: something between us and the server may be about to drop it."""
_NO_BODY = frozenset({204, 304})


class Stage(Enum):
    """How far a request had come when its connection broke."""

    CONNECTING = "connecting"
    SENDING = "sending"
    """The server cannot have seen the whole request."""
    SENT = "waiting for the reply"


class Broken(Exception):
    """The connection failed, timed out, or spoke something else than HTTP."""

    def __init__(self, stage: Stage, why: str) -> None:
        super().__init__(f"{why} while {stage.value}")
        self.stage = stage
        self.why = why


class Deadline:
    """A moment on the monotonic clock, and how long nothing at all may happen until then."""

    __slots__ = ("_end", "_stall")

    def __init__(self, seconds: float, stall: float = math.inf) -> None:
        self._end = time.monotonic() + seconds
        self._stall = stall

    def left(self) -> float:
        """Seconds that the next step may take; `TimeoutError` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return min(left, self._stall)

    def passed(self) -> bool:
        return time.monotonic() >= self._end


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As the Host header wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Head:
    """A reply's status and headers, names in lower case. `length` is None for chunks, -1 where only closing ends the body."""

    status: int
    headers: Mapping[str, str]
    length: int | None


class Connection:
    """One keep-alive connection, used by one thread at a time."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, deadline: Deadline, connect: float) -> None:
        self.origin = origin
        self.reusable = False
        self.idle_since = 0.0
        self._keep = False
        self._spoilt = False
        self._buffer = bytearray(BUFFER)
        self._view = memoryview(self._buffer)
        self._start: int = 0
        self._end: int = 0
        try:
            self._socket = socket.create_connection((origin.host, origin.port), min(connect, deadline.left()))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=origin.host)
        except OSError as error:
            raise Broken(Stage.CONNECTING, _why(error)) from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def fresh(self) -> bool:
        """Fit for another request: not idle for long, and nothing to read, which would be the server's good-bye."""
        return time.monotonic() - self.idle_since < IDLE_SECONDS and self._start == self._end and not self.answered()

    def send(self, data: bytes | memoryview, deadline: Deadline) -> None:
        try:
            self._socket.settimeout(deadline.left())
            self._socket.sendall(data)
        except OSError as error:
            self._spoilt = True
            raise Broken(Stage.SENDING, _why(error)) from error

    def head(self, deadline: Deadline) -> Head:
        """Read the next reply's head, which may be here already; interim replies are passed over."""
        while True:
            text = self._until(b"\r\n\r\n", deadline)
            head, self._keep = _parse(text)
            if head.status >= 200:  # noqa: PLR2004  1xx are interim
                return head

    def body(self, head: Head, deadline: Deadline) -> Iterator[memoryview]:
        """The body's parts as they come, each valid until the next is asked for. A body that ends early is `Broken`."""
        if head.length is None:
            yield from self._chunks(deadline)
        elif head.length < 0:
            yield from self._rest(deadline)
        else:
            yield from self._exactly(head.length, deadline)
        self.reusable = self._keep and not self._spoilt

    def answered(self) -> bool:
        """Whether something from the server waits to be read."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self.reusable = False
        self._socket.close()

    def _exactly(self, length: int, deadline: Deadline) -> Iterator[memoryview]:
        while length:
            if self._start == self._end:
                self._fill(deadline)
            stop = min(self._end, self._start + length)
            part = self._view[self._start : stop]
            length -= stop - self._start
            self._start = stop
            yield part

    def _chunks(self, deadline: Deadline) -> Iterator[memoryview]:
        while size := self._chunk_size(deadline):
            yield from self._exactly(size, deadline)
            if self._until(b"\r\n", deadline):
                raise Broken(Stage.SENT, "a chunk of the reply does not end where it should")
        while self._until(b"\r\n", deadline):
            pass

    def _chunk_size(self, deadline: Deadline) -> int:
        line = self._until(b"\r\n", deadline).split(b";")[0].strip()
        try:
            return int(line, 16)
        except ValueError as error:
            raise Broken(Stage.SENT, "a chunk of the reply has no size") from error

    def _rest(self, deadline: Deadline) -> Iterator[memoryview]:
        """HTTP/1.0 style: everything until the server closes. Whoever reads it has to know by other means that it is whole."""
        while True:
            if self._start < self._end:
                part = self._view[self._start : self._end]
                self._start = self._end
                yield part
            if not self._receive(deadline):
                return

    def _until(self, mark: bytes, deadline: Deadline) -> bytes:
        while (found := self._buffer.find(mark, self._start, self._end)) < 0:
            self._fill(deadline)
        text = bytes(self._view[self._start : found])
        self._start = found + len(mark)
        return text

    def _fill(self, deadline: Deadline) -> None:
        if not self._receive(deadline):
            raise Broken(Stage.SENT, "the connection was closed")

    def _receive(self, deadline: Deadline) -> int:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == BUFFER:
            if self._start == 0:
                raise Broken(Stage.SENT, "the head of the reply is too long")
            unread = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, len(unread)
            self._view[: self._end] = unread
        try:
            self._socket.settimeout(deadline.left())
            count = self._socket.recv_into(self._view[self._end :])
        except OSError as error:
            raise Broken(Stage.SENT, _why(error)) from error
        self._end += count
        return count


class Pool:
    """Idle connections by origin, the last used first. Connections of another process, after a fork, are not touched."""

    def __init__(self, tls: ssl.SSLContext | None, connect: float, keep: int) -> None:
        self._tls = tls
        self._connect = connect
        self._keep = keep
        self._idle: dict[Origin, deque[Connection]] = {}
        self._pid = os.getpid()

    def take(self, origin: Origin, deadline: Deadline) -> Connection:
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        idle = self._idle.get(origin, ())
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread took the last one
                break
            if connection.fresh():
                return connection
            connection.close()
        return Connection(origin, self._context(origin), deadline, self._connect)

    def give(self, connection: Connection) -> None:
        """Keep a connection whose reply was read to its end; close any other."""
        idle = self._idle.setdefault(connection.origin, deque())
        if not connection.reusable or len(idle) >= self._keep:
            connection.close()
            return
        connection.reusable = False
        connection.idle_since = time.monotonic()
        idle.append(connection)

    def close(self) -> None:
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _context(self, origin: Origin) -> ssl.SSLContext | None:
        if origin.scheme != "https":
            return None
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _parse(text: bytes) -> tuple[Head, bool]:
    """The head of a reply, and whether the server keeps the connection."""
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (len(code) == 3 and code.isdecimal()):  # noqa: PLR2004  a status has 3 digits
        raise Broken(Stage.SENT, "the reply is not HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    status = int(code)
    length = _length(status, headers)
    keep = version == "HTTP/1.1" and length != -1 and headers.get("connection", "").lower() != "close"
    return Head(status, headers, length), keep


def _length(status: int, headers: Mapping[str, str]) -> int | None:
    """How long the body is; None where it comes in chunks, -1 where it goes on until the server closes."""
    if status in _NO_BODY or status < 200:  # noqa: PLR2004  as above
        return 0
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return None
    announced = headers.get("content-length")
    if announced is None:
        return -1
    if not announced.isdecimal():
        raise Broken(Stage.SENT, "the reply has no valid length")
    return int(announced)


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error) or type(error).__name__).splitlines()[0]
