"""Waiting for a condition, in place of fixed pauses."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(found: Callable[[], T], *, within: float = 30.0, what: str = "the condition") -> T:
    """Call `found` until its value is truthy, and return that value; fail after `within` seconds with `what` in the message."""
    deadline = time.monotonic() + within
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true within {within} s"
        time.sleep(0.02)
