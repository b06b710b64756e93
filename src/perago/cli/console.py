"""How commands speak: text, tables and JSON in; colour on a terminal, plain lines when piped, one `error:` line on stderr."""

import contextlib
import json
import os
import sys
from collections.abc import Generator, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 100_000
"""A pipe has no right margin: nothing is wrapped or cut for a program that reads it."""


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def error(message: str, code: str = "") -> None:
    """`error: …` on stderr, its code last; a message that lists several things keeps a line for each."""
    _labelled("error", "bold red", message, f" [{code}]" if code else "")


def warning(message: str) -> None:
    _labelled("warning", "bold yellow", message)


def traceback_tail(lines: Iterable[str]) -> None:
    """The author's own frames, dimmed, above the `error:` line that sums them up."""
    console = stderr()
    for line in lines:
        console.print(Text(printable(line.rstrip("\n"), keep="\n\t"), style="dim"))


def write_json(value: object) -> None:
    """For scripts: two-space JSON and nothing else on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def prints_to_stderr() -> Generator[None]:
    """Whatever an author's code prints, by Python or by a process it starts, leaves stdout to what the command says."""
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
    """Names and values: an aligned block under a title on a terminal, `name: value` lines when piped."""
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
    """The text with what a terminal would obey (escape sequences, line ends, lone surrogates) made visible."""
    if text.isprintable():
        return text
    return "".join(_visible(char) if char not in keep and not char.isprintable() else char for char in text)


def size(count: int) -> str:
    """Bytes as a person reads them: `0 B`, `812 B`, `1.4 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:  # noqa: PLR2004 - the next unit begins where three digits no longer hold it
            return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def _console(*, stderr: bool) -> Console:
    # Made at each use: whoever replaced sys.stdout or sys.stderr in between is respected.
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
