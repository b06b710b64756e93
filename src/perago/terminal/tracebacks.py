"""Tracebacks of a task's own exceptions on the terminal."""

from collections.abc import Iterable

from rich.text import Text

from perago.terminal import console


def show(lines: Iterable[str]) -> None:
    """Print them on stderr, dimmed: the `error:` line that follows sums them up."""
    screen = console.stderr()
    for line in lines:
        screen.print(Text(console.printable(line, keep="\n\t"), style="dim"))
