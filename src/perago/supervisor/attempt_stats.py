"""What an attempt has done so far, summed up from its events: phases with durations, files, bytes, requests."""

import time
from dataclasses import dataclass, field
from typing import Any

from perago.events import Done, Event, Phase, Progress, Removed, Revoked

TELL_SECONDS = 15.0
"""Between two lines about the progress of one body."""


@dataclass(slots=True)
class Tidings:
    """Of a body that counts what it does, at a rate that logs can bear."""

    told_at: float = float("-inf")

    def are_due(self, event: Progress, now: float) -> bool:
        if event.phase is not Phase.BODY or event.total_files is None or now - self.told_at < TELL_SECONDS:
            return False
        self.told_at = now
        return True


@dataclass(slots=True)
class Tally:
    began: float
    phase: Phase = Phase.PREPARE
    seconds: dict[Phase, float] = field(default_factory=dict[Phase, float])
    files: int = 0
    bytes: int = 0
    requests: int = 0
    progress: Progress | None = None

    def add(self, event: Event) -> None:
        self.phase = event.phase
        match event:
            case Progress():
                self.progress = event
            case Done():
                self.progress = None
                self.seconds[event.phase] = self.seconds.get(event.phase, 0.0) + event.seconds
                self.files += event.files
                self.bytes += event.bytes
                self.requests += event.requests
            case Removed() | Revoked():
                pass

    def summary(self, now: float | None = None) -> dict[str, Any]:
        total = (time.monotonic() if now is None else now) - self.began
        return {
            "seconds": round(total, 4),
            "phases": {phase.value: round(seconds, 4) for phase, seconds in self.seconds.items()},
            "files": self.files,
            "bytes": self.bytes,
            "requests": self.requests,
        }

    def shown_progress(self) -> str:
        """`812 of 2000 files`, or what is known of it."""
        found = self.progress
        if found is None or not (found.files or found.bytes):
            return ""
        of = f" of {found.total_files}" if found.total_files is not None else ""
        return f"{found.files}{of} {found.unit}, {found.bytes} bytes"
