"""Faults that only tests need, beside those of `perago.fault_proxy`, which this module offers too.

with FaultProxy(stack.lakefs_url) as proxy:
    proxy.on("GET .*/objects", truncate(100), times=2)
    client = LakeFS(proxy.url, …)
"""

from collections.abc import Callable

from perago.fault_proxy.faults import HeldRequest, cut, drop_reply
from perago.fault_proxy.messages import Gone, Message
from perago.fault_proxy.proxy import Exchange, Fault, FaultProxy, passed_on

__all__ = [
    "Exchange",
    "Fault",
    "FaultProxy",
    "Gone",
    "HeldRequest",
    "answer",
    "corrupt",
    "cut",
    "cut_request",
    "delay",
    "drip",
    "drop_reply",
    "passed_on",
    "raw",
    "rewrite",
    "silence",
    "truncate",
]


def cut_request(after: int) -> Fault:
    """Only the first bytes of the request arrive."""

    def fault(exchange: Exchange) -> None:
        exchange.forward_part(after)
        raise Gone

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
