"""How long an attempt waits for a rival that precedes it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

LONGEST = 10.0
"""Seconds. An attempt that is about to publish has usually reported within one; waiting for it spares a failure and a retry."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """A bounded, polling wait. With 0 seconds it reads once."""

    seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def until(self, is_settled: Callable[[T], bool], look: Callable[[], T]) -> T:
        """Call `look` until `is_settled` accepts its result or the time is over; returns the last result."""
        end, pause = self.clock() + self.seconds, _FIRST_PAUSE
        seen = look()
        while not is_settled(seen) and self.clock() + pause <= end:
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            seen = look()
        return seen


ONE_LOOK = Patience()
