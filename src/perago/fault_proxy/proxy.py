"""A proxy between a client and a real HTTP server that fails on demand, at a named request and in a named way.

    with FaultProxy(stack.lakefs_url) as proxy:
        proxy.on("POST .*/merge/", drop_reply())        # the next merge happens, its reply is lost
        client = LakeFS(proxy.url, …)

Deterministic: a fault belongs to the first requests that match its pattern, in the order they arrive. `seen` tells what came in
and what was passed on. Without an upstream every request is refused, unless a fault answers it.
"""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from perago.fault_proxy.messages import CONTINUE, Gone, Message, Stream

_CONNECT_SECONDS = 30
_SIGNED = b"\r\nauthorization: aws4-"
"""The signature of a request to an S3 gateway covers the Host header, which therefore stays as it is."""


@dataclass
class Seen:
    """A request that reached the proxy: its line without the version, when, and how often it was passed on whole."""

    line: str
    forwarded: int = 0
    at: float = field(default_factory=time.monotonic)


class Exchange:
    """One request on its way: what a fault can do with it."""

    def __init__(self, proxy: "FaultProxy", client: Stream, server: "Server", request: Message, seen: Seen) -> None:
        self.client = client
        self.request = request
        self.proxy = proxy
        self._server = server
        self._seen = seen

    def forward(self) -> Message:
        """Pass the request on and take the whole reply: from here on the server has acted."""
        stream = self._server.stream()
        self._seen.forwarded += 1
        stream.send(self._server.addressed(self.request).raw)
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
        if self.proxy.stopping.wait(seconds):
            raise Gone


Fault = Callable[[Exchange], None]
"""Answers the client, or raises `Gone` to hang up on it."""


def passed_on(exchange: Exchange) -> None:
    """What happens to a request without a fault."""
    exchange.client.send(exchange.forward().raw)


@dataclass
class Rule:
    pattern: re.Pattern[str]
    fault: Fault
    times: int
    containing: tuple[str, ...] = ()

    def matches(self, request: Message) -> bool:
        found = self.times and self.pattern.match(request.line)
        return bool(found) and all(text.encode() in request.body for text in self.containing)


class Server:
    """The connection to the upstream that belongs to one client connection; made when first needed."""

    def __init__(self, upstream: SplitResult | None) -> None:
        self._upstream = upstream
        self._stream: Stream | None = None

    def stream(self) -> Stream:
        if self._upstream is None:
            raise Gone
        if self._stream is None:
            try:
                self._stream = Stream(_connected(self._upstream))
            except OSError as error:
                raise Gone from error
        return self._stream

    def addressed(self, request: Message) -> Message:
        """The request with the upstream's own name as its host."""
        if self._upstream is None or _SIGNED in request.head.lower():
            return request
        host = f"\\g<1>{self._upstream.netloc}".encode()
        return Message(re.sub(rb"(?i)(\r\nhost: *)[^\r]*", host, request.head, count=1), request.body)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None


def _connected(upstream: SplitResult) -> socket.socket:
    host, secure = upstream.hostname or "", upstream.scheme == "https"
    plain = socket.create_connection((host, upstream.port or (443 if secure else 80)), _CONNECT_SECONDS)
    return ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain


def _unchanged(request: Message) -> Message:
    return request


@dataclass
class FaultProxy:
    """Listens on a free port of this host while it is entered. `amend` may change each request before anything else."""

    upstream: str | None = None
    seen: list[Seen] = field(default_factory=list[Seen])
    stopping: threading.Event = field(default_factory=threading.Event)
    amend: Callable[[Message], Message] = _unchanged

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

    def on(self, pattern: str, fault: Fault, times: int = 1, *, containing: tuple[str, ...] = ()) -> None:
        """Let the next `times` requests fail this way; earlier rules come first.

        Their `METHOD /target` matches the pattern, and their body contains all the texts.
        """
        with self._lock:
            self._rules.append(Rule(re.compile(pattern), fault, times, containing))

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
        self.close()

    def close(self) -> None:
        """Hang up on all clients and wait for the threads."""
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
        server = Server(urlsplit(self.upstream) if self.upstream else None)
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
        request = self.amend(client.message())
        with self._lock:
            seen = Seen(request.line)
            self.seen.append(seen)
            fault = self._fault(request)
        fault(Exchange(self, client, server, request, seen))

    def _fault(self, request: Message) -> Fault:
        for rule in self._rules:
            if rule.matches(request):
                rule.times -= 1
                return rule.fault
        return passed_on
