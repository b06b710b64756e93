"""Lets SIGTERM interrupt the body of a cancelled attempt, but never Perago's own steps around the body."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from types import FrameType

from perago.attempt import cancellation


class Interrupted(BaseException):
    """Raised into the body; not an Exception, so that a body that catches those does not continue.

    The transaction turns it into `AttemptCancelled`.
    """


@dataclass(slots=True)
class Interruption:
    """`on_signal` is the handler of SIGTERM; `during_body` is the context in which it may interrupt."""

    body_runs: bool = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.body_runs and cancellation.cancelled():
            self.body_runs = False
            raise Interrupted

    @contextlib.contextmanager
    def during_body(self) -> Generator[None]:
        self.body_runs = True
        try:
            yield
        finally:
            self.body_runs = False
