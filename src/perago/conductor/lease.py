"""Lease arithmetic in monotonic seconds: when to extend, until when an attempt may act, and whether the rest is enough."""

from dataclasses import dataclass, replace

UNLIMITED_SECONDS = 3600.0
"""Conductor's response timeout for a task type that declares none."""
LONGEST_INTERVAL = 60.0
LARGEST_MARGIN = 10.0
MARGIN_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on an attempt. `renewed_at` is when the renewing request was sent: the server's clock started later."""

    response_timeout: float
    renewed_at: float
    interval: float

    @property
    def deadline(self) -> float:
        """The local end of the lease. The server may hand the task to another worker one margin later."""
        return self.renewed_at + self.response_timeout - margin(self.response_timeout)

    @property
    def extend_at(self) -> float:
        return self.renewed_at + self.interval

    def left(self, now: float) -> float:
        return self.deadline - now

    def lost(self, now: float) -> bool:
        return now >= self.deadline

    def fits(self, now: float, *, needed: float) -> bool:
        """Whether requests that take `needed` seconds at worst end before the local deadline."""
        return now + needed <= self.deadline

    def renewed(self, sent_at: float) -> "Lease":
        return replace(self, renewed_at=max(self.renewed_at, sent_at))


def start(response_timeout: float, polled_at: float, heartbeat: float | None = None) -> Lease:
    """The lease of a task just polled by a request sent at `polled_at`."""
    usable = response_timeout if response_timeout > 0 else UNLIMITED_SECONDS
    return Lease(usable, polled_at, interval(usable, heartbeat))


def margin(response_timeout: float) -> float:
    """Seconds for clock drift, requests in transit, and a busy server."""
    return min(LARGEST_MARGIN, MARGIN_SHARE * response_timeout)


def interval(response_timeout: float, heartbeat: float | None = None) -> float:
    """Seconds between extensions: short enough that a third one is in time after two have failed."""
    return min(heartbeat or LONGEST_INTERVAL, LONGEST_INTERVAL, response_timeout / 3)


def needed(*, extension: float, fence: float, publish: float, completion: float) -> float:
    """Seconds between the decision to publish and the accepted completion in the worst case."""
    return extension + fence + publish + completion
