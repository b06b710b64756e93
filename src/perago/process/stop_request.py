"""A request to stop that a signal handler may make and that ends every wait: a flag and a pipe."""

import os
import select
import signal
from collections.abc import Sequence
from types import FrameType


class StopRequested(BaseException):
    """The user asked to stop. Not an error, so `except Exception` does not catch it; the command line does."""


class StopRequest:
    """Made once, seen by every wait. The signal handler only sets a number and writes one byte."""

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
        """Raises StopRequested if there is a request."""
        if self.number:
            raise StopRequested

    def wait(self, descriptors: Sequence[int], seconds: float) -> None:
        """Returns when a descriptor is readable or the time is over; raises StopRequested if there is a request."""
        self.check()
        select.select([self._reader, *descriptors], [], [], seconds)
        self.check()
