"""Statistics of a running attempt, computed from its events: phases with durations, files, bytes, requests."""

import time
from dataclasses import dataclass, field
from typing import Any

from perago.events import Done, Event, Phase, Progress, Removed, Revoked, TableChecked

PROGRESS_SECONDS = 15.0
"""Shortest time between two log lines about the progress of a body."""


@dataclass(slots=True)
class AttemptStats:
    """`began` is a time of the monotonic clock."""

    began: float
    phase: Phase = Phase.PREPARE
    seconds: dict[Phase, float] = field(default_factory=dict[Phase, float])
    files: int = 0
    bytes: int = 0
    requests: int = 0
    removed: list[str] = field(default_factory=list[str])
    """Commits that the attempt removed from the target branch."""
    progress: Progress | None = None
    progress_logged_at: float = float("-inf")

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
            case Removed():
                self.removed.append(event.commit)
            case Revoked() | TableChecked():
                pass

    def progress_is_due(self, event: Event, now: float) -> bool:
        """Whether the event is progress of the body that should be logged now: at most once in `PROGRESS_SECONDS`."""
        if not isinstance(event, Progress) or event.phase is not Phase.BODY or event.total_files is None:
            return False
        if now - self.progress_logged_at < PROGRESS_SECONDS:
            return False
        self.progress_logged_at = now
        return True

    def summary(self, now: float | None = None) -> dict[str, Any]:
        total = (time.monotonic() if now is None else now) - self.began
        return {
            "seconds": round(total, 4),
            "phases": {phase.value: round(seconds, 4) for phase, seconds in self.seconds.items()},
            "files": self.files,
            "bytes": self.bytes,
            "requests": self.requests,
            **({"removed_commits": list(self.removed)} if self.removed else {}),
        }

    def progress_text(self) -> str:
        """`812 of 2000 files, 4096 bytes`, without the total if it is unknown; empty without progress."""
        found = self.progress
        if found is None or not (found.files or found.bytes):
            return ""
        of = f" of {found.total_files}" if found.total_files is not None else ""
        return f"{found.files}{of} {found.unit}, {found.bytes} bytes"
