"""Output of the demo: a live table on a terminal, a line for each change in a pipe, and tables at the end."""

import contextlib
from collections.abc import Generator, Iterable, Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from perago.demo.pipeline import STEPS, PipelineState, StepAttempt
from perago.model import Commit
from perago.terminal import console

_STYLES = {"COMPLETED": "green", "IN_PROGRESS": "cyan", "SCHEDULED": "dim", "TIMED_OUT": "yellow"}


class Board:
    """Shows the state of the pipeline each time it is called."""

    def __init__(self, screen: Console, live: Live | None) -> None:
        self._screen = screen
        self._live = live
        self._printed: set[tuple[str, str]] = set()

    def show(self, workflow: PipelineState, phase: str) -> None:
        if self._live is not None:
            self._live.update(steps(workflow, phase))
            return
        for attempt in workflow.attempts:
            if (attempt.task_id, attempt.status) not in self._printed and attempt.status != "SCHEDULED":
                self._printed.add((attempt.task_id, attempt.status))
                self._screen.print(Text(f"{attempt.step}: {attempt.status}{_after(attempt)}"))

    def announce(self, line: str) -> None:
        self._screen.print(Text(line, style="bold yellow"))


@contextlib.contextmanager
def board() -> Generator[Board]:
    screen = console.stderr()
    if not screen.is_terminal:
        yield Board(screen, None)
        return
    with Live(console=screen, refresh_per_second=4) as live:
        yield Board(screen, live)


def steps(workflow: PipelineState, phase: str = "") -> Table:
    """A row for each attempt; `phase` is what the worker reports about the running one."""
    table = Table("step", "attempt", "status", "seconds", "result", title="The pipeline")
    for step in STEPS:
        attempts = workflow.of(step)
        if not attempts:
            table.add_row(step, "", Text("waiting", style="dim"), "", "")
        for number, attempt in enumerate(attempts, 1):
            running = attempt.status == "IN_PROGRESS"
            status = Text(attempt.status, style=_STYLES.get(attempt.status, "red"))
            what = phase if running else (rows(attempt) or attempt.reason[:60])
            table.add_row(step, str(number), status, f"{attempt.seconds:.1f}", what)
    return table


def rows(attempt: StepAttempt) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in attempt.result.items())


def history(commits: Sequence[Commit]) -> Table:
    """Newest first, as `git log` has it."""
    table = Table("commit", "published by", "attempt", title="The branch main, newest first")
    for commit in commits:
        retry = commit.metadata.get("perago.attempt", "")
        table.add_row(commit.id[:12], commit.message, str(int(retry) + 1) if retry else "")
    return table


def finish(tables: Iterable[Table], lines: Iterable[str]) -> None:
    out = console.stdout()
    for table in tables:
        out.print(table)
    for line in lines:
        out.print(Text(line))


def _after(attempt: StepAttempt) -> str:
    return f" in {attempt.seconds:.1f} s: {rows(attempt)}" if attempt.status == "COMPLETED" else ""


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
