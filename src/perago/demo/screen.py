"""Tables and lines that the demos print at the end. While a run goes on, it is shown as `perago watch` shows it."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from perago.model import Commit
from perago.terminal import console


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
