"""Shared by log, blame and undo: one line about a commit."""

from rich.text import Text

from perago.operate import publications
from perago.operate.evidence import Evidence
from perago.operate.publications import Standing
from perago.terminal import console

_STYLES = {
    Standing.ACCEPTED: "green",
    Standing.UNACCEPTED: "bold red",
    Standing.RUNNING: "yellow",
    Standing.UNKNOWN: "yellow",
    Standing.OPERATOR: "cyan",
    Standing.BY_HAND: "magenta",
    Standing.FIRST: "dim",
}
_WIDTH = max(len(standing) for standing in Standing)


def line(one: Evidence) -> Text:
    """Short id, time, whether Conductor accepted it, and who made it."""
    standing = publications.standing(one)
    return Text.assemble(
        (one.commit.id[: publications.SHORT], "bold"),
        f"  {publications.moment(one)}  ",
        (f"{standing.value:<{_WIDTH}}", _STYLES[standing]),
        f"  {console.printable(publications.summary(one))}",
    )
