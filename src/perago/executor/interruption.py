"""Cancels a running body: first the flag that `perago.cancelled()` reads, then SIGTERM raises into the body."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from perago.attempt import cancellation, port
from perago.errors import AttemptCancelled
from perago.model import Listing, TaskInput


class Interrupted(BaseException):
    """Raised into the body; not an `Exception`, so that a body that catches those is stopped too."""


@dataclass(slots=True)
class Interruption:
    """Whether SIGTERM may interrupt what runs: only the body, never Perago's own steps around it."""

    body_runs: bool = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.body_runs and cancellation.cancelled():
            self.body_runs = False
            raise Interrupted


@dataclass(frozen=True, slots=True)
class InterruptibleTask:
    """A task with a check before each step whether the attempt is cancelled, and a body that SIGTERM can interrupt."""

    task: port.Task
    interruption: Interruption

    @property
    def read_only(self) -> bool:
        return self.task.read_only

    def accept(self, task_input: Mapping[str, Any]) -> TaskInput:
        return self.task.accept(task_input)

    def check_before(self, listing: Listing) -> None:
        raise_if_cancelled()
        self.task.check_before(listing)

    def body(self, workspace: object, params: object) -> object:
        raise_if_cancelled()
        try:
            self.interruption.body_runs = True
            returned = self.task.body(workspace, params)
            self.interruption.body_runs = False
        except Interrupted:
            raise _cancelled() from None
        except Exception:
            # A Spark job that was cancelled fails with its own error.
            raise_if_cancelled()
            raise
        finally:
            self.interruption.body_runs = False
        raise_if_cancelled()
        return returned

    def result(self, returned: object) -> Mapping[str, Any]:
        return self.task.result(returned)

    def check_after(self, listing: Listing) -> None:
        raise_if_cancelled()
        self.task.check_after(listing)


def raise_if_cancelled() -> None:
    if cancellation.cancelled():
        raise _cancelled()


def _cancelled() -> AttemptCancelled:
    return AttemptCancelled(f"the attempt was called off: {cancellation.reason()}")
