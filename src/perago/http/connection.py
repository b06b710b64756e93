"""One HTTP/1.1 connection on a socket: sends bytes, reads the head of a reply and the parts of its body, all under a deadline.

Optimised for small objects, for which a general client has much overhead: a GET of 10 KB takes a fifth of the processor time of
`http.client` and a tenth of that of urllib3. A deadline also ends a reply that arrives one byte per second, which a timeout per
read does not. No redirects, proxies, retries or cookies.
"""

import math
import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping

from perago.http.failure import ConnectionBroken, RequestStage
from perago.http.request import Origin, ReplyHead

BUFFER = 128 * 1024
IDLE_SECONDS = 15.0
"""A connection unused for longer is not used again: a server or proxy may be about to close it."""
_NO_BODY = frozenset({204, 304})
_HEX_DIGITS = b"0123456789abcdefABCDEF"


class Deadline:
    """A moment on the monotonic clock, and the longest time without any progress until then."""

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


class HttpConnection:
    """A keep-alive connection, used by one thread at a time."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, deadline: Deadline, connect: float) -> None:
        self.origin = origin
        self.reusable = False
        self.idle_since = 0.0
        self._keep_alive = False
        self._send_failed = False
        self._buffer = bytearray(BUFFER)
        self._view = memoryview(self._buffer)
        self._start: int = 0
        self._end: int = 0
        try:
            self._socket = socket.create_connection((origin.host, origin.port), min(connect, deadline.left()))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=origin.host)
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            raise ConnectionBroken(RequestStage.CONNECTING, _reason(error)) from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def is_usable(self) -> bool:
        """For another request: not idle for long, and nothing to read, which would mean that the server closed it."""
        return time.monotonic() - self.idle_since < IDLE_SECONDS and self._start == self._end and not self.has_input()

    def send(self, data: bytes | memoryview, deadline: Deadline) -> None:
        try:
            self._socket.settimeout(deadline.left())
            self._socket.sendall(data)
        except OSError as error:
            self._send_failed = True
            raise ConnectionBroken(RequestStage.SENDING, _reason(error)) from error

    def head(self, deadline: Deadline) -> ReplyHead:
        """Read the head of the next reply, skipping interim (1xx) replies."""
        while True:
            text = self._read_until(b"\r\n\r\n", deadline)
            head, self._keep_alive = _parse(text)
            if head.status >= 200:  # noqa: PLR2004  1xx are interim
                return head

    def body(self, head: ReplyHead, deadline: Deadline) -> Iterator[memoryview]:
        """The parts of the body as they arrive, each valid until the next is read. `ConnectionBroken` if it ends early."""
        if head.length is None:
            yield from self._chunks(deadline)
        elif head.length < 0:
            yield from self._until_closed(deadline)
        else:
            yield from self._exactly(head.length, deadline)
        self.reusable = self._keep_alive and not self._send_failed

    def has_input(self) -> bool:
        """Whether there is something to read from the server, or its end of the connection was closed."""
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
            if self._read_until(b"\r\n", deadline):
                raise ConnectionBroken(RequestStage.SENT, "a chunk of the reply does not end where it should")
        while self._read_until(b"\r\n", deadline):
            pass

    def _chunk_size(self, deadline: Deadline) -> int:
        line = self._read_until(b"\r\n", deadline).split(b";")[0].strip()
        if not line or line.strip(_HEX_DIGITS):
            raise ConnectionBroken(RequestStage.SENT, "a chunk of the reply has no size")
        return int(line, 16)

    def _until_closed(self, deadline: Deadline) -> Iterator[memoryview]:
        """Everything until the server closes, as in HTTP/1.0. The caller must know the expected size to notice a missing part."""
        while True:
            if self._start < self._end:
                part = self._view[self._start : self._end]
                self._start = self._end
                yield part
            if not self._receive(deadline):
                return

    def _read_until(self, end: bytes, deadline: Deadline) -> bytes:
        while (found := self._buffer.find(end, self._start, self._end)) < 0:
            self._fill(deadline)
        text = bytes(self._view[self._start : found])
        self._start = found + len(end)
        return text

    def _fill(self, deadline: Deadline) -> None:
        if not self._receive(deadline):
            raise ConnectionBroken(RequestStage.SENT, "the connection was closed")

    def _receive(self, deadline: Deadline) -> int:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == BUFFER:
            if self._start == 0:
                raise ConnectionBroken(RequestStage.SENT, "the head of the reply is too long")
            unread = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, len(unread)
            self._view[: self._end] = unread
        try:
            self._socket.settimeout(deadline.left())
            count = self._socket.recv_into(self._view[self._end :])
        except OSError as error:
            raise ConnectionBroken(RequestStage.SENT, _reason(error)) from error
        self._end += count
        return count


def _parse(text: bytes) -> tuple[ReplyHead, bool]:
    """The head of a reply, and whether the server keeps the connection open."""
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (len(code) == 3 and code.isdecimal()):  # noqa: PLR2004  a status has 3 digits
        raise ConnectionBroken(RequestStage.SENT, "the reply is not HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    status = int(code)
    length = _length(status, headers)
    keep_alive = version == "HTTP/1.1" and length != -1 and headers.get("connection", "").lower() != "close"
    return ReplyHead(status, headers, length), keep_alive


def _length(status: int, headers: Mapping[str, str]) -> int | None:
    """Bytes of the body; None for chunks, -1 where the end of the connection ends it."""
    if status in _NO_BODY or status < 200:  # noqa: PLR2004  1xx are interim
        return 0
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return None
    stated = headers.get("content-length")
    if stated is None:
        return -1
    if not stated.isdecimal():
        raise ConnectionBroken(RequestStage.SENT, "the reply has no valid length")
    return int(stated)


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).splitlines()[0]
