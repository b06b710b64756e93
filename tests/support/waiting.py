"""Waiting for a condition, in place of fixed pauses."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_SHORTEST, _LONGEST = 0.02, 0.2


def eventually(found: Callable[[], T], *, within: float = 30.0, what: str = "the condition") -> T:
    """Call `found` until its value is truthy, and return that value; fail after `within` seconds with `what` in the message.

    Pauses grow to a tenth of the time that has passed: often enough, without keeping the processor busy with questions.
    """
    began = time.monotonic()
    while True:
        value = found()
        if value:
            return value
        passed = time.monotonic() - began
        assert passed < within, f"{what} did not come true within {within} s"
        time.sleep(min(max(passed / 10, _SHORTEST), _LONGEST))
