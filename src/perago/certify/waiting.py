"""Waits with a deadline that a stop of the whole run ends early."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from perago.certify.verdict import Interrupted, NotReached

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long one step of a scenario may take. A worker needs milliseconds to seconds for it; a busy machine longer."""
_SHORTEST, _LONGEST = 0.02, 0.25


class Patience:
    """Shared by all threads of a run. No wait goes beyond the time limit of the run."""

    def __init__(self, limit_seconds: float) -> None:
        self._end = time.monotonic() + limit_seconds
        self.stopped = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the time limit of the run has passed."""
        return time.monotonic() >= self._end

    def until(self, found: Callable[[], T], what: str, within: float = PATIENCE_SECONDS) -> T:
        """Ask until the answer is truthy, and return it. `NotReached` names `what` if it does not come in time."""
        began = time.monotonic()
        while True:
            value = found()
            if value:
                return value
            passed = time.monotonic() - began
            if passed >= within:
                raise NotReached(f"{what} did not come within {within:.0f} s")
            if self.is_over:
                raise NotReached(f"the time limit of the run was over before {what}")
            self.pause(min(max(passed / 10, _SHORTEST), _LONGEST))

    def has_come(self, found: Callable[[], object], within: float) -> bool:
        """Whether the answer becomes truthy in that time."""
        try:
            self.until(found, "it", within)
        except NotReached:
            return False
        return True

    def pause(self, seconds: float) -> None:
        """`Interrupted` if the run is stopped meanwhile."""
        if self.stopped.wait(seconds):
            raise Interrupted
