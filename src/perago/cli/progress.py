"""News of long steps in; spinners with bytes and words on a terminal, one line per step when piped. Always on stderr."""

import contextlib
from collections.abc import Generator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from perago.cli import console
from perago.provision.progress import Progress as News
from perago.provision.progress import Report


@contextlib.contextmanager
def shown() -> Generator[Report]:
    """A report function for as long as the context lasts."""
    screen = console.stderr()
    if not screen.is_terminal:
        yield _Lines(screen)
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TextColumn("{task.fields[words]}"))
    with Progress(*columns, TimeElapsedColumn(), console=screen) as bars:
        yield _Spinners(bars)


def words(news: News) -> str:
    """What to say of a step just now: bytes where they are counted, else its own words."""
    if news.done is None:
        return news.detail
    return f"{console.size(news.done)} of {console.size(news.total)}" if news.total else console.size(news.done)


class _Lines:
    """Says when a step begins and ends; byte counts and waiting stay unsaid."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._begun: set[str] = set()

    def __call__(self, news: News) -> None:
        if news.finished:
            self._screen.print(Text(f"{news.step}: {news.detail or 'done'}"))
        elif news.notice or news.step not in self._begun:
            self._screen.print(Text(f"{news.step}: {news.detail}" if news.notice else news.step))
        self._begun.add(news.step)


class _Spinners:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, news: News) -> None:
        if news.step not in self._tasks:
            self._tasks[news.step] = self._bars.add_task(news.step, total=1, words="")
        self._bars.update(self._tasks[news.step], completed=1 if news.finished else 0, words=words(news))
