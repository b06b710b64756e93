"""A spinner on stderr for the phases of `perago run`. It is hidden while the body runs, whose output has the terminal."""

from types import TracebackType
from typing import Self

from rich.status import Status

from perago import events
from perago.terminal import console

_LABELS = {
    events.Phase.PREPARE: "preparing",
    events.Phase.DOWNLOAD: "copying the workspace",
    events.Phase.PRE_CHECK: "pre checks",
    events.Phase.POST_CHECK: "post checks",
    events.Phase.VERIFY_INPUT: "verifying the input",
    events.Phase.DIFF: "comparing",
    events.Phase.STAGE: "collecting changes",
}


class Spinner:
    """Listens to the events of an attempt and shows its phase until the context ends; does nothing in a pipe."""

    def __init__(self) -> None:
        screen = console.stderr()
        self._status = Status("", console=screen) if screen.is_terminal else None
        self._step = ""

    def begin(self, step: str) -> None:
        """The events that follow are of this step of a pipeline. What is printed now has the terminal."""
        self._step = step
        self.stop()

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, event: events.Event) -> None:
        if self._status is None:
            return
        if event.phase is events.Phase.BODY:
            self._show_body(event)
        elif isinstance(event, events.Progress) and event.phase in _LABELS:
            self._status.update(f"{self._step}: {_label(event)}" if self._step else _label(event))
            self._status.start()

    def _show_body(self, event: events.Event) -> None:
        """Shown only if the body reports how much it has done."""
        if self._status is None:
            return
        if isinstance(event, events.Progress) and event.total_files is not None:
            self._status.update(event.note)
            self._status.start()
        else:
            self._status.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _label(event: events.Progress) -> str:
    if event.phase is events.Phase.PREPARE:
        return event.note
    amount = f": {event.files:,} files, {console.size(event.bytes)}" if event.files else ""
    return f"{_LABELS[event.phase]}{amount}"
