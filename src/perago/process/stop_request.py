"""A stop request that a signal handler may raise and every wait notices: a flag and a pipe."""

import os
import select
import signal
from collections.abc import Sequence
from types import FrameType


class Cancelled(BaseException):
    """The person asked to stop. Not an error: nothing but the front door catches it."""


class Cancel:
    """Requested once, seen by everybody. The handler only sets a number and writes one byte."""

    __slots__ = ("_reader", "_writer", "number")

    def __init__(self) -> None:
        self.number = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def request(self, number: int = signal.SIGTERM, _frame: FrameType | None = None) -> None:
        if not self.number:
            self.number = number
            os.write(self._writer, b"!")

    def check(self) -> None:
        if self.number:
            raise Cancelled

    def wait(self, descriptors: Sequence[int], seconds: float) -> None:
        """Returns when a descriptor has news or the time is over; raises when a stop is requested."""
        self.check()
        select.select([self._reader, *descriptors], [], [], seconds)
        self.check()
