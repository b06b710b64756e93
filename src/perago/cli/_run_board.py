"""Shows a run: a live table on a terminal, a line for each change of state in a pipe."""

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from perago.operate import publications
from perago.operate.run_state import Lanes, Row, RunState, StepAttempt
from perago.terminal import console

Phases = Callable[[], Mapping[str, str]]
"""What the workers on this machine say about running attempts, by task id."""

_STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "IN_PROGRESS": "cyan",
    "SCHEDULED": "dim",
    "PAUSED": "yellow",
    "TIMED_OUT": "yellow",
    "CANCELED": "yellow",
    "TERMINATED": "yellow",
}
_CUT = 80
"""So many characters of a result or a reason are shown in the table, and of a list or an object in a line."""
_REFRESH = 4


class Board:
    def __init__(self, screen: Console, live: Live | None, phases: Phases) -> None:
        self._screen = screen
        self._live = live
        self._phases = phases
        self._printed: set[tuple[str, ...]] = set()

    def show(self, run: RunState) -> None:
        if self._live is not None:
            self._live.update(table(run, self._phases()), refresh=True)
            return
        for key, line in _lines(run):
            if key not in self._printed:
                self._printed.add(key)
                self._screen.print(Text(line))

    def note(self, line: str) -> None:
        """On stderr in a pipe, so that stdout has only the states of the run; above the table on a terminal."""
        if self._live is not None:
            self._screen.print(Text(line, style="bold yellow"))
        else:
            console.stderr().print(Text(line))


@contextlib.contextmanager
def opened(phases: Phases, screen: Console | None = None) -> Generator[Board]:
    screen = screen if screen is not None else console.stdout()
    if not screen.is_terminal:
        yield Board(screen, None, phases)
        return
    with Live(console=screen, refresh_per_second=_REFRESH, transient=False) as live:
        yield Board(screen, live, phases)


def table(run: RunState, phases: Mapping[str, str]) -> Table:
    """A row for each attempt, in the order in which Conductor scheduled them."""
    title = Text.assemble(f"{console.printable(run.name)} {run.id}: ", (run.status, style(run.status)), f", {run.seconds:.0f} s")
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("step", "attempt", "status", "seconds", "commit", "result"):
        shown.add_column(name, justify="right" if name in {"attempt", "seconds"} else "left")
    for row in run.rows:
        if isinstance(row, Lanes):
            shown.add_row(_label(row), "", "", "", "", _lane_counts(row))
            for failed in row.failures:
                _add(shown, failed, phases, nested="  ")
        else:
            _add(shown, row, phases)
    return shown


def _add(shown: Table, one: StepAttempt, phases: Mapping[str, str], nested: str = "") -> None:
    status = Text(one.status, style=style(one.status))
    what = phases.get(one.task_id, "") if one.status == "IN_PROGRESS" else outcome(one)
    seconds = f"{one.seconds:.1f}" if one.status != "SCHEDULED" else ""
    shown.add_row(nested + _label(one), str(one.attempt), status, seconds, one.commit[: publications.SHORT], Text(_cut(what)))


def style(status: str) -> str:
    """The colour of a run's or a task's status."""
    return _STYLES.get(status, "red")


def outcome(one: StepAttempt) -> str:
    """Why it failed, or what it returned."""
    if one.reason:
        return console.printable(one.reason)
    return console.printable(", ".join(f"{name} {_value(value)}" for name, value in one.result.items()))


def _label(row: Row) -> str:
    iteration = f" (iteration {row.iteration})" if row.iteration else ""
    lanes = f", {row.total} lanes" if isinstance(row, Lanes) else ""
    return f"{'  ' * row.depth}{console.printable(row.step)}{iteration}{lanes}"


def _lane_counts(row: Lanes) -> str:
    return ", ".join(f"{count} {state}" for state, count in row.counts.items() if count) or "no lanes"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"


def _lines(run: RunState) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each line with what it stands for: a line is printed once."""
    if run.is_active:
        yield ("run", run.status), f"run {run.id} of {console.printable(run.name)}: {run.status}"
    for row in run.rows:
        if isinstance(row, Lanes):
            yield _lanes_line(row)
            yield from (_attempt_line(failed) for failed in row.failures)
        elif row.status != "SCHEDULED":
            yield _attempt_line(row)
    if not run.is_active:
        line = f"run {run.id} of {console.printable(run.name)}: {run.status} in {run.seconds:.1f} s"
        yield ("run", run.status), line


def _attempt_line(one: StepAttempt) -> tuple[tuple[str, ...], str]:
    number = f", attempt {one.attempt}" if one.attempt > 1 else ""
    line = f"{_label(one)}{number}: {one.status}"
    if one.status != "IN_PROGRESS":
        line += f" in {one.seconds:.1f} s"
        line += f", commit {one.commit[: publications.SHORT]}" if one.commit else ""
        line += f": {what}" if (what := outcome(one)) else ""
    # A retry of the run revives the task of a called pipeline under the same id.
    return (one.task_id, one.status, str(one.attempt)), line


def _lanes_line(row: Lanes) -> tuple[tuple[str, ...], str]:
    """At most a dozen lines, however many lanes there are."""
    tenth = row.counts["done"] * 10 // max(1, row.total)
    key = ("lanes", str(row.depth), row.step, str(row.iteration), str(tenth), str(bool(row.counts["failed"])))
    return key, f"{_label(row)}: {_lane_counts(row)}"
