"""Count transferred files, bytes and requests, and emit progress events at a limited rate."""

import threading
import time

from perago import events

_STEP_SECONDS = 0.25


class ProgressMeter:
    """`add` may be called from any thread. `tick` emits in the calling thread; an exception of a listener ends the transfer."""

    def __init__(
        self, phase: events.Phase, emit: events.Emit, total_files: int | None = None, total_bytes: int | None = None
    ) -> None:
        self._phase = phase
        self._emit = emit
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._next = self._started
        self.total_files = total_files
        self.total_bytes = total_bytes
        self.files = 0
        self.bytes = 0
        self.requests = 0

    def add(self, files: int = 0, size: int = 0, requests: int = 0) -> None:
        with self._lock:
            self.files += files
            self.bytes += size
            self.requests += requests

    def tick(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _STEP_SECONDS
        self._emit(events.Progress(self._phase, self.files, self.bytes, self.total_files, self.total_bytes))

    def failed(self, effect: events.Effect, error: str) -> None:
        seconds = time.monotonic() - self._started
        self._emit(events.Done(effect, seconds, self.files, self.bytes, self.requests, error=error))

    def done(self, effect: events.Effect, detail: str = "") -> None:
        seconds = time.monotonic() - self._started
        self._emit(events.Done(effect, seconds, self.files, self.bytes, self.requests, detail))
