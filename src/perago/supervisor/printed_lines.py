"""What a body prints, for Conductor's task log: the last lines, in few entries."""

import collections
from dataclasses import dataclass, field
from typing import Any

KEPT_LINES = 40
"""Of each stream: what a body prints to stdout does not displace the last words on stderr."""
LONGEST_LINE = 1000
ENTRIES = 7
"""While the body runs. Conductor shows the first ten of a task; the report and later removals of commits need some."""
FIRST_SECONDS = 5.0
LONGER = 3
"""Each entry is this many times as long after the one before: the last one is 90 minutes into the attempt."""


@dataclass(slots=True)
class PrintedLines:
    """`due` is a time of the monotonic clock."""

    due: float
    _pause: float = FIRST_SECONDS
    _entries: int = 0
    _count: int = 0
    _streams: dict[str, collections.deque[tuple[int, str]]] = field(default_factory=dict[str, Any])

    def add(self, stream: str, line: str) -> None:
        self._count += 1
        kept = self._streams.setdefault(stream, collections.deque(maxlen=KEPT_LINES))
        kept.append((self._count, line[:LONGEST_LINE]))

    def entry(self, now: float) -> tuple[str, ...]:
        """The lines to write now, while the body runs; none if the last entry was written a short time ago."""
        if not self._count or now < self.due or self._entries == ENTRIES:
            return ()
        self._entries += 1
        self._pause *= LONGER
        self.due = now + self._pause
        return self.take()

    def take(self) -> tuple[str, ...]:
        """The last lines since the last entry, and how many lines before them are left out."""
        lines = [line for _, line in sorted(line for kept in self._streams.values() for line in kept)]
        left_out = self._count - len(lines)
        first = [f"… {left_out} lines left out; the worker's log has all of them …"] if left_out else []
        self._streams.clear()
        self._count = 0
        return (*first, *lines)
