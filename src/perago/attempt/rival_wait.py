"""How long an attempt waits for another one that goes first."""

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
    """Without seconds there is one look."""

    seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def until(self, is_settled: Callable[[T], bool], look: Callable[[], T]) -> T:
        """Look until it is settled or the time is over; what was seen last."""
        end, pause = self.clock() + self.seconds, _FIRST_PAUSE
        seen = look()
        while not is_settled(seen) and self.clock() + pause <= end:
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            seen = look()
        return seen


ONE_LOOK = Patience()
