"""Shared by log, blame and undo: one line about a commit."""

from rich.text import Text

from perago import events
from perago.operate import publications
from perago.operate.evidence import Evidence
from perago.operate.publications import Standing
from perago.protocol import commit_labels
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


def line(one: Evidence, replaced: events.Removed | None = None) -> Text:
    """Short id, time, whether Conductor accepted it, who made it, how much it changed and what it replaced."""
    standing = publications.standing(one)
    return Text.assemble(
        (one.commit.id[: publications.SHORT], "bold"),
        f"  {publications.moment(one)}  ",
        (f"{standing.value:<{_WIDTH}}", _STYLES[standing]),
        f"  {console.printable(publications.summary(one))}",
        (_amount(one), "dim"),
        (_tables(one), "dim"),
        (f"; replaced {replaced.commit[: publications.SHORT]}, {console.printable(replaced.why)}" if replaced else "", "yellow"),
    )


def _amount(one: Evidence) -> str:
    counts = commit_labels.read_counts(one.commit.metadata)
    size = "" if counts is None or counts.bytes is None else f" {console.size(counts.bytes)}"
    return f"  {publications.amount(one)}{size}" if counts is not None else ""


def _tables(one: Evidence) -> str:
    found = publications.tables(one)
    return f"  {console.printable(found)}" if found else ""
