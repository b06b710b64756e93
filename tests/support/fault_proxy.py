"""A proxy between a client and a real HTTP server that fails on demand, at a named request and in a named way.

    with FaultProxy(stack.lakefs_url) as proxy:
        proxy.on("POST .*/merge/", drop_reply())        # the next merge happens, its reply is lost
        proxy.on("GET .*/objects", truncate(100), times=2)
        client = LakeFS(proxy.url, …)

Deterministic: a fault belongs to the first requests that match its pattern, in the order they arrive. `seen` tells what came in
and what was passed on. Without an upstream only `answer` makes sense, and everything else is refused.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Gone(Exception):
    """The other side closed, or the proxy is stopping."""


@dataclass
class Seen:
    """A request that reached the proxy: its line without the version, and how often it was passed on whole."""

    line: str
    forwarded: int = 0


@dataclass(frozen=True)
class Message:
    """One HTTP message in its raw form."""

    head: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.head + self.body


class Stream:
    """Reads whole messages from a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._pending = b""

    def message(self, *, no_body: bool = False) -> Message:
        head = self._until(b"\r\n\r\n")
        fields = head.decode("latin-1").lower()
        if "\r\nexpect: 100-continue" in fields:
            # A client that sends `Expect: 100-continue` waits seconds for the reply before it sends its body.
            self.send(CONTINUE)
        if no_body or re.match(r"http/1.. (1..|204|304)", fields):
            return Message(head, b"")
        if "transfer-encoding: chunked" in fields:
            return Message(head, self._chunks())
        length = re.search(r"\r\ncontent-length: *(\d+)", fields)
        return Message(head, self._exactly(int(length[1]) if length else 0))

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone from error

    def close(self, *, reset: bool = False) -> None:
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.shut()
        self.socket.close()

    def shut(self) -> None:
        """Wake a thread that reads this socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was quicker

    def _chunks(self) -> bytes:
        body = b""
        while True:
            line = self._until(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body += line + self._exactly(size + 2)
            if not size:
                return body

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._pending:
            self._more()
        end = self._pending.index(mark) + len(mark)
        return self._exactly(end)

    def _exactly(self, size: int) -> bytes:
        while len(self._pending) < size:
            self._more()
        data, self._pending = self._pending[:size], self._pending[size:]
        return data

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._pending += data


class Exchange:
    """One request on its way: what a fault can do with it."""

    def __init__(self, proxy: "FaultProxy", client: Stream, server: "Server", request: Message, seen: Seen) -> None:
        self.client = client
        self.request = request
        self._proxy = proxy
        self._server = server
        self._seen = seen

    def forward(self) -> Message:
        """Pass the request on and take the whole reply: from here on the server has acted."""
        stream = self._server.stream()
        self._seen.forwarded += 1
        stream.send(self.request.raw)
        reply = stream.message(no_body=self._seen.line.startswith("HEAD "))
        while reply.head.startswith(CONTINUE[:12]):
            reply = stream.message()
        return reply

    def forward_part(self, size: int) -> None:
        """Pass on only the beginning of the request, then hang up on the server."""
        self._server.stream().send(self.request.raw[:size])
        self._server.close()

    def wait(self, seconds: float | None = None) -> None:
        """Until the time is over or the proxy stops."""
        if self._proxy.stopping.wait(seconds):
            raise Gone


Fault = Callable[[Exchange], None]
"""Answers the client, or raises `Gone` to hang up on it."""


def passed_on(exchange: Exchange) -> None:
    exchange.client.send(exchange.forward().raw)


def cut(*, reset: bool = False) -> Fault:
    """The request never arrives."""
    return lambda exchange: _hang_up(exchange, reset=reset)


def cut_request(after: int) -> Fault:
    """Only the first bytes of the request arrive."""

    def fault(exchange: Exchange) -> None:
        exchange.forward_part(after)
        raise Gone

    return fault


def drop_reply(*, reset: bool = False) -> Fault:
    """The server acts, its reply is lost."""

    def fault(exchange: Exchange) -> None:
        exchange.forward()
        _hang_up(exchange, reset=reset)

    return fault


def truncate(after: int, *, body_only: bool = True) -> Fault:
    """The reply ends after `after` bytes of its body (or of the whole)."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        exchange.client.send(reply.raw[: after + (len(reply.head) if body_only else 0)])
        raise Gone

    return fault


def corrupt(at: int) -> Fault:
    """One byte of the reply's body is changed."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        body = bytearray(reply.body)
        body[at] ^= 0xFF
        exchange.client.send(reply.head + bytes(body))

    return fault


def rewrite(change: Callable[[Message], bytes]) -> Fault:
    """The reply is whatever `change` makes of it."""
    return lambda exchange: exchange.client.send(change(exchange.forward()))


def delay(seconds: float) -> Fault:
    """The server acts at once, the reply comes late."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        exchange.wait(seconds)
        exchange.client.send(reply.raw)

    return fault


def drip(seconds: float) -> Fault:
    """The reply comes byte by byte."""

    def fault(exchange: Exchange) -> None:
        for byte in exchange.forward().raw:
            exchange.client.send(bytes([byte]))
            exchange.wait(seconds)

    return fault


def silence() -> Fault:
    """The connection stays open, and no reply is sent."""
    return Exchange.wait


def answer(status: int, body: bytes = b"", **headers: str) -> Fault:
    """The server is not asked; `headers` with underscores for dashes."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Fault\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return lambda exchange: exchange.client.send(head.encode() + body)


def raw(data: bytes) -> Fault:
    """Bytes that need not be HTTP, then the end of the connection."""

    def fault(exchange: Exchange) -> None:
        exchange.client.send(data)
        raise Gone

    return fault


@dataclass
class Rule:
    pattern: re.Pattern[str]
    fault: Fault
    times: int


class Server:
    """The connection to the upstream that belongs to one client connection; made when first needed."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self._address = address
        self._stream: Stream | None = None

    def stream(self) -> Stream:
        if self._address is None:
            raise Gone
        if self._stream is None:
            try:
                self._stream = Stream(socket.create_connection(self._address, 30))
            except OSError as error:
                raise Gone from error
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None


@dataclass
class FaultProxy:
    """Listens on a free port of this host while it is entered."""

    upstream: str | None = None
    seen: list[Seen] = field(default_factory=list[Seen])
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._clients: set[Stream] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        path = urlsplit(self.upstream or "").path
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}{path}"

    @property
    def connections(self) -> int:
        """Connections that were ever made."""
        return len(self._threads) - 1

    @property
    def clients(self) -> int:
        """Connections that are open now."""
        with self._lock:
            return len(self._clients)

    def on(self, pattern: str, fault: Fault, times: int = 1) -> None:
        """Let the next `times` requests whose `METHOD /target` matches fail this way; earlier rules come first."""
        with self._lock:
            self._rules.append(Rule(re.compile(pattern), fault, times))

    def heal(self) -> None:
        """No request fails any more."""
        with self._lock:
            self._rules.clear()

    def requests(self, pattern: str = "") -> list[Seen]:
        return [seen for seen in self.seen if re.match(pattern, seen.line)]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for client in self._clients:
                client.shut()
        for thread in self._threads:
            thread.join(10)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, Stream(sock))

    def _serve(self, client: Stream) -> None:
        parts = urlsplit(self.upstream) if self.upstream else None
        server = Server((parts.hostname or "", parts.port or 80) if parts else None)
        with self._lock:
            self._clients.add(client)
        try:
            while True:
                self._exchange(client, server)
        except Gone:
            client.close()
        finally:
            server.close()
            with self._lock:
                self._clients.discard(client)

    def _exchange(self, client: Stream, server: Server) -> None:
        request = client.message()
        line = request.head.decode("latin-1").split("\r\n", 1)[0].rpartition(" ")[0]
        with self._lock:
            seen = Seen(line)
            self.seen.append(seen)
            fault = self._fault(line)
        fault(Exchange(self, client, server, request, seen))

    def _fault(self, line: str) -> Fault:
        for rule in self._rules:
            if rule.times and rule.pattern.match(line):
                rule.times -= 1
                return rule.fault
        return passed_on


def _hang_up(exchange: Exchange, *, reset: bool) -> None:
    if reset:
        exchange.client.close(reset=True)
    raise Gone
