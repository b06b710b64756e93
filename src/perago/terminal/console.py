"""Lines, name-value tables and JSON for people and scripts: colour on a terminal, plain uncut lines in a pipe."""

import contextlib
import json
import os
import sys
from collections.abc import Generator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 100_000
"""Wide enough that nothing is wrapped or cut for a program that reads the pipe."""


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def error(message: str, code: str = "") -> None:
    """Print `error: message [code]` on stderr; further lines of the message follow as they are."""
    _labelled("error", "bold red", message, f" [{code}]" if code else "")


def warning(message: str) -> None:
    """Print `warning: message` on stderr."""
    _labelled("warning", "bold yellow", message)


def write_json(value: object) -> None:
    """Print indented JSON on stdout, for scripts."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send what a task module prints, also through child processes, to stderr: stdout carries the command's own output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def pairs(title: str, rows: Sequence[tuple[str, str | Text]]) -> None:
    """Print names and values: an aligned block under a title on a terminal, `name: value` lines in a pipe."""
    console = stdout()
    if not console.is_terminal:
        for name, value in rows:
            console.print(Text.assemble(f"{name}: ", _shown(value)))
        return
    console.print(Text(title, style="bold"))
    block = Table.grid(padding=(0, 2, 0, 0))
    block.add_column(style="cyan", no_wrap=True)
    block.add_column(overflow="fold")
    for name, value in rows:
        block.add_row(f"  {name}", _shown(value))
    console.print(block)


def printable(text: str, *, keep: str = "") -> str:
    """Escape what a terminal would interpret: control sequences, line ends, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(_visible(char) if char not in keep and not char.isprintable() else char for char in text)


def size(count: int) -> str:
    """A number of bytes as `0 B`, `812 B` or `1.4 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:  # noqa: PLR2004 - rounds to four digits, so the next unit is used
            return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def _console(*, stderr: bool) -> Console:
    # Created at each use, because sys.stdout and sys.stderr may have been replaced since.
    console = Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def _labelled(label: str, style: str, message: str, after: str = "") -> None:
    first, *more = message.strip().splitlines() or [""]
    console = stderr()
    console.print(Text.assemble((f"{label}:", style), f" {printable(first)}", (after, "dim")))
    for line in more:
        console.print(Text(printable(line)))


def _shown(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(printable(value))


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
