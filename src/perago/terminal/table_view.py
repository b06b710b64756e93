"""Changed tables as lines for a terminal: sign, path, format, files, rows and columns before and after."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from perago.local_run.changes import ChangeKind
from perago.local_run.table_changes import TableChange, TableSide
from perago.terminal import console

MAX_TABLES = 50
MAX_COLUMNS = 20
_MAX_TYPE_WIDTH = 60

STYLES = {ChangeKind.ADDED: ("+", "green"), ChangeKind.CHANGED: ("~", "yellow"), ChangeKind.DELETED: ("-", "red")}
"""Sign and colour of a change."""


def render(tables: Sequence[TableChange]) -> Iterator[Text]:
    """One line per table, with its changed columns below it."""
    for table in tables[:MAX_TABLES]:
        sign, style = STYLES[table.kind]
        yield Text.assemble((f"{sign} {console.printable(table.path)}", style), (f"  {facts(table)}", "dim"))
        yield from _columns(table)
    if len(tables) > MAX_TABLES:
        yield Text(f"… and {len(tables) - MAX_TABLES} more tables", style="dim")


def below(table: TableChange) -> Iterator[Text]:
    """Of a table of one file, whose path stands above it."""
    yield Text(f"    {facts(table)}", style="dim")
    yield from _columns(table)


def facts(table: TableChange) -> str:
    """As in `parquet, 2 -> 3 files, 1,000 -> 1,200 rows, 4 columns`."""
    sides = [side for side in (table.before, table.after) if side is not None]
    files = [] if table.is_one_file else [_counted([f"{side.files:,}" for side in sides], "file")]
    columns = _counted([str(len(side.columns)) for side in sides], "column")
    return ", ".join([table.format, *files, _counted([_rows(side) for side in sides], "row", always=True), columns])


def _counted(values: Sequence[str], unit: str, *, always: bool = False) -> str:
    """Both values, or one if they are the same, unless `always`."""
    shown = values if always else list(dict.fromkeys(values))
    return f"{' -> '.join(shown)} {unit}{'' if shown[-1] == '1' else 's'}"


def _rows(side: TableSide) -> str:
    return "?" if side.rows is None else f"{side.rows:,}"


def _columns(table: TableChange) -> Iterator[Text]:
    lines = [
        *((f"+ column {_named(name, kind)}", "green") for name, kind in table.added_columns.items()),
        *((f"- column {_named(name, kind)}", "red") for name, kind in table.removed_columns.items()),
        *((f"~ column {_named(name, old)} -> {_cut(new)}", "yellow") for name, (old, new) in table.retyped_columns.items()),
    ]
    for line, style in lines[:MAX_COLUMNS]:
        yield Text(f"    {line}", style=style)
    if len(lines) > MAX_COLUMNS:
        yield Text(f"    … {len(lines) - MAX_COLUMNS} more columns", style="dim")


def _named(name: str, kind: str) -> str:
    return f"{_cut(name)} {_cut(kind)}".rstrip()


def _cut(text: str) -> str:
    shown = console.printable(text)
    return shown if len(shown) <= _MAX_TYPE_WIDTH else f"{shown[: _MAX_TYPE_WIDTH - 1]}…"
