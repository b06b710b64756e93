"""Lines, name-value tables and JSON for people and scripts: colour on a terminal, plain uncut lines in a pipe.

Simple lines are written without rich, whose import takes longer than most commands; tables and live views load it.
"""

import contextlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Part = str | tuple[str, str]
"""A text, or a text and its style, such as `bold red`."""

PIPED_WIDTH = 100_000
"""Wide enough that nothing is wrapped or cut for a program that reads the pipe."""
_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
"""Parameters of the terminal's escape sequence for each word of a style."""


def stdout() -> "Console":
    return _console(stderr=False)


def stderr() -> "Console":
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


def line(*parts: Part) -> None:
    """Print a line on stdout."""
    _write_line(sys.stdout, parts)


def pairs(title: str, rows: Sequence[tuple[str, Part]]) -> None:
    """Print names and values: an aligned block under a title on a terminal, `name: value` lines in a pipe."""
    if not _is_terminal(sys.stdout):
        for name, value in rows:
            line(f"{name}: ", value)
        return
    line((title, "bold"))
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        line((f"  {name.ljust(width)}", "cyan"), "  ", value)


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


def _console(*, stderr: bool) -> "Console":
    from rich.console import Console  # noqa: PLC0415 - only commands that draw wait for it

    # Created at each use, because sys.stdout and sys.stderr may have been replaced since.
    console = Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def _labelled(label: str, style: str, message: str, after: str = "") -> None:
    first, *more = message.strip().splitlines() or [""]
    _write_line(sys.stderr, [(f"{label}:", style), f" {first}", (after, "dim")])
    for text in more:
        _write_line(sys.stderr, [text])


def _write_line(stream: TextIO, parts: Sequence[Part]) -> None:
    coloured = _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    stream.write("".join(_rendered(part, coloured) for part in parts) + "\n")
    stream.flush()


def _rendered(part: Part, coloured: bool) -> str:
    text, style = (part, "") if isinstance(part, str) else part
    shown = printable(text)
    if not coloured or not style or not shown:
        return shown
    return f"\x1b[{';'.join(_SGR[word] for word in style.split())}m{shown}\x1b[0m"


def _is_terminal(stream: TextIO) -> bool:
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
