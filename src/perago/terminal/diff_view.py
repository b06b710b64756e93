"""Changed files as lines for a terminal: sign, path, sizes, differing text, and totals."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from perago.local_run.changes import ChangeKind, FileChange, unified
from perago.local_run.table_changes import TableChange
from perago.terminal import console, table_view

MAX_FILES = 200
MAX_TEXT_LINES = 400
MAX_LINES_OF_A_FILE = 40
_MAX_PATH_WIDTH = 60

_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render(changes: Sequence[FileChange], tables: Sequence[TableChange] = ()) -> Iterator[Text]:
    """One line per file with its differing lines below it, then the totals. Long diffs are cut, with a count.

    A table of Parquet files is one line instead of its files; one of text files is a line before them.
    """
    yield from table_view.render([table for table in tables if not table.is_one_file])
    alone = {table.path: table for table in tables if table.is_one_file}
    hidden = {path for table in tables if table.format == "parquet" and not table.is_one_file for path in table.changed_files}
    listed = [change for change in changes if change.path not in hidden]
    shown = listed[:MAX_FILES]
    width = min(_MAX_PATH_WIDTH, max((len(console.printable(change.path)) for change in shown), default=0))
    remaining = MAX_TEXT_LINES
    for change in shown:
        yield _headline(change, width)
        if change.path in alone:
            yield from table_view.below(alone[change.path])
        lines = list(_text_lines(change, min(remaining, MAX_LINES_OF_A_FILE)))
        remaining -= len(lines)
        yield from lines
    if len(listed) > MAX_FILES:
        yield Text(f"… and {len(listed) - MAX_FILES} more files", style="dim")
    yield totals(changes)


def totals(changes: Sequence[FileChange]) -> Text:
    counts = Counter(change.kind for change in changes)
    upload = sum(change.after.size for change in changes if change.after is not None)
    parts = [Text(f"{counts[kind]} {kind}", style=table_view.STYLES[kind][1] if counts[kind] else "dim") for kind in ChangeKind]
    return Text(", ").join(parts).append(f"; {console.size(upload)} to upload", style="dim")


def _headline(change: FileChange, width: int) -> Text:
    sign, style = table_view.STYLES[change.kind]
    return Text.assemble((f"{sign} {console.printable(change.path):<{width}}", style), (f"  {_sizes(change)}", "dim"))


def _sizes(change: FileChange) -> str:
    sides = [side for side in (change.before, change.after) if side is not None]
    note = ", now executable" if sides[-1].executable and not sides[0].executable else ""
    if len(sides) > 1 and sides[0].executable and not sides[-1].executable:
        note = ", no longer executable"
    return " -> ".join(console.size(side.size) for side in sides) + note


def _text_lines(change: FileChange, remaining: int) -> Iterator[Text]:
    if change.kind is ChangeKind.DELETED or remaining <= 0:
        return
    lines = unified(change)
    if lines is None:
        return
    for line in lines[:remaining]:
        yield Text(f"    {console.printable(line, keep=chr(9))}", style=_LINE_STYLES.get(line[:1], "dim"))
    if len(lines) > remaining:
        yield Text(f"    … {len(lines) - remaining} more lines", style="dim")
