"""What a failed request means: how far it got, whether it may have been carried out, and which error is raised for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from perago.http.request import HttpRequest


class RequestStage(Enum):
    """How far a request had got when its connection broke."""

    CONNECTING = "connecting"
    SENDING = "sending"
    SENT = "waiting for the reply"


class ConnectionBroken(Exception):
    """The connection failed or timed out, or the reply is not HTTP."""

    def __init__(self, stage: RequestStage, reason: str) -> None:
        super().__init__(f"{reason} while {stage.value}")
        self.stage = stage
        self.reason = reason


def may_have_happened(stage: RequestStage) -> bool:
    """Whether the server may have carried out a request whose connection broke at this stage: the one rule for every server.

    - connecting: no, nothing was sent.
    - sending: no. The operating system did not accept the last byte of the request, so the server cannot receive it. Each of our
      requests states its length or ends with its head, and a server must discard an incomplete one (RFC 9112, section 8). The
      tests show that lakeFS and Conductor do, even if only the last byte is missing. Of several requests sent together, the
      first ones may be complete although the last one is not: the client counts all of these as sent.
    - sent: yes. Only a reply could show the opposite, and it did not arrive, or not completely.

    When there is a reply, the server's `ErrorTable` decides by its status. If in doubt the answer is yes: a caller that wrongly
    assumes a failure could repeat a write, while a caller that knows of the doubt reads the state first.
    """
    return stage is RequestStage.SENT


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request that failed: the error to raise, and whether a read may be tried again, `after` seconds at the earliest."""

    error: Exception
    retry: bool = False
    after: float = 0.0
    status: int | None = None
    """Of the reply; None if there was none."""

    def caused_by(self, cause: Exception) -> "RequestFailure":
        self.error.__cause__ = cause
        return self


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """One per server: turns what happened to a request into one of our errors."""

    refused: Callable[[HttpRequest, int, Mapping[str, str], bytes], RequestFailure]
    """For a reply that is not 2xx: its status, its headers, and the beginning of its body."""
    broken: Callable[[HttpRequest, ConnectionBroken], RequestFailure]
    malformed: Callable[[HttpRequest, str], RequestFailure]
    """For a 2xx reply that cannot be understood, with the reason."""
    retried: tuple[type[Exception], ...] = ()
    """Errors raised by a receiver after which a read is retried."""


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks for. The header's other form, a date, would need synchronised clocks and counts as none."""
    value = headers.get("retry-after", "")
    return float(value) if value.isdecimal() else 0.0
