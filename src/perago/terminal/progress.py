"""Progress of long steps on stderr: spinners with byte counts on a terminal, one line per step in a pipe."""

import contextlib
from collections.abc import Generator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from perago.provision import progress
from perago.terminal import console


@contextlib.contextmanager
def shown() -> Generator[progress.Report]:
    """A function that shows the progress reported to it until the context ends."""
    screen = console.stderr()
    if not screen.is_terminal:
        yield _Lines(screen)
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TextColumn("{task.fields[status]}"))
    with Progress(*columns, TimeElapsedColumn(), console=screen) as bars:
        yield _Spinners(bars)


def status_text(update: progress.InstallProgress) -> str:
    """Byte counts if there are any, otherwise the detail that the step reports."""
    if update.done is None:
        return update.detail
    return f"{console.size(update.done)} of {console.size(update.total)}" if update.total else console.size(update.done)


class _Lines:
    """Prints a line when a step begins, ends or has a notice; byte counts are left out."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._begun: set[str] = set()

    def __call__(self, update: progress.InstallProgress) -> None:
        if update.finished:
            self._screen.print(Text(f"{update.step}: {update.detail or 'done'}"))
        elif update.notice or update.step not in self._begun:
            self._screen.print(Text(f"{update.step}: {update.detail}" if update.notice else update.step))
        self._begun.add(update.step)


class _Spinners:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, update: progress.InstallProgress) -> None:
        if update.step not in self._tasks:
            self._tasks[update.step] = self._bars.add_task(update.step, total=1, status="")
        self._bars.update(self._tasks[update.step], completed=1 if update.finished else 0, status=status_text(update))
