"""Around each effect of an attempt: how long it took and how it ended, as one event."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass

from perago import events
from perago.attempt import outcome


@dataclass(frozen=True, slots=True)
class Effects:
    """Where events go and whose clock measures them (seconds)."""

    emit: events.Emit
    clock: Callable[[], float]

    @contextlib.contextmanager
    def of(self, phase: events.Phase, action: str, if_failed: str = "") -> Generator[None]:
        """`if_failed` is what the event adds when it went wrong. Says that it began, too: what dies in it says nothing more."""
        self.emit(events.Progress(phase, note=action))
        started = self.clock()
        try:
            yield
        except BaseException as error:
            seconds = self.clock() - started
            self.emit(events.Done(phase, action, seconds, detail=if_failed, error=outcome.reason(error)))
            raise
        self.emit(events.Done(phase, action, self.clock() - started))

    def clean_up(self, action: str, remove: Callable[[], None], if_failed: str) -> None:
        """Cleaning up changes no result: a failure is said and forgotten."""
        with contextlib.suppress(Exception), self.of(events.Phase.CLEAN_UP, action, if_failed):
            remove()
