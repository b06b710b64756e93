"""Measures the effects of an attempt: one event per effect, with its duration and its error."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass

from perago import events
from perago.attempt import outcome
from perago.events import Effect


@dataclass(frozen=True, slots=True)
class EffectRecorder:
    """Emits to `emit` what `clock` (seconds) measures."""

    emit: events.Emit
    clock: Callable[[], float]

    @contextlib.contextmanager
    def record(self, effect: Effect, if_failed: str = "") -> Generator[None]:
        """Around one effect. `if_failed` is the event's detail after a failure.

        The beginning is emitted too: a process that dies during the effect emits nothing more.
        """
        self.emit(events.Progress(effect.phase, note=effect.value))
        started = self.clock()
        try:
            yield
        except BaseException as error:
            seconds = self.clock() - started
            self.emit(events.Done(effect, seconds, detail=if_failed, error=outcome.reason(error)))
            raise
        self.emit(events.Done(effect, self.clock() - started))

    def clean_up(self, effect: Effect, remove: Callable[[], None], if_failed: str) -> None:
        """Record `remove` and ignore its failure, which must not change the attempt's result."""
        with contextlib.suppress(Exception), self.record(effect, if_failed):
            remove()
