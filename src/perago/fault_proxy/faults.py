"""What can happen to a request: it never arrives, its reply is lost, or it is held until it is released."""

import threading
from dataclasses import dataclass, field

from perago.fault_proxy.messages import Gone
from perago.fault_proxy.proxy import Exchange, Fault, FaultProxy, passed_on

_TICK_SECONDS = 0.05


def cut(*, reset: bool = False) -> Fault:
    """The request never arrives."""
    return lambda exchange: hang_up(exchange, reset=reset)


def drop_reply(*, reset: bool = False) -> Fault:
    """The server acts, its reply is lost."""

    def fault(exchange: Exchange) -> None:
        exchange.forward()
        hang_up(exchange, reset=reset)

    return fault


def hang_up(exchange: Exchange, *, reset: bool) -> None:
    if reset:
        exchange.client.close(reset=True)
    raise Gone


@dataclass
class HeldRequest:
    """A fault that delays one request, before the server receives it or (`after`) before its reply is returned.

    It may be installed in several proxies: the first request that arrives is held, further ones are passed on.
    """

    after: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)
    proxy: FaultProxy | None = None
    """The proxy that the request arrived at."""
    dropped: bool = False
    _first: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, exchange: Exchange) -> None:
        if not self._first.acquire(blocking=False):
            passed_on(exchange)
            return
        reply = exchange.forward() if self.after else None
        self.proxy = exchange.proxy
        self.reached.set()
        try:
            while not self.released.is_set():
                # Raises if the proxy stops meanwhile.
                exchange.wait(_TICK_SECONDS)
            if self.dropped:
                raise Gone
            exchange.client.send((reply or exchange.forward()).raw)
        finally:
            self.passed.set()

    def release(self) -> None:
        """Pass the request on, or its reply."""
        self.released.set()

    def drop(self) -> None:
        """Hang up instead: the request, or its reply, is lost."""
        self.dropped = True
        self.released.set()
