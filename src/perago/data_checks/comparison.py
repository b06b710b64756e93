"""The rules about a table as a whole: its number of rows, and how it compares with the table of the input commit."""

from collections.abc import Iterator, Sequence

from perago.data_checks.port import Previous
from perago.declare.tables import column_types
from perago.declare.tables.column_types import Column
from perago.declare.tables.require_table import RequireTable

Range = tuple[float | None, float | None]


def allows_no_change(rows_change: Range | None) -> bool:
    return rows_change is None or _within(1.0, rows_change)


def problems(
    check: RequireTable, rows: int, columns: Sequence[Column] | None, before: Previous | None
) -> Iterator[tuple[str, str | None]]:
    """Each rule by its name, and what is wrong; None if it holds. Without a table in the input commit nothing is compared."""
    had = "" if before is None else f"; the input commit has {before.rows:,}"
    if check.rows is not None:
        held = _within(rows, check.rows)
        yield "rows", None if held else f"has {rows:,} rows, not {_shown(check.rows)}{had}"
    if check.rows_change is not None:
        yield "rows changed", _changed(check.rows_change, rows, before)
    if check.compatible:
        lost = [] if before is None else column_types.lost_columns(before.columns or (), columns or ())
        yield "compatible", None if not lost or columns is None else _incompatible(lost)


def _changed(allowed: Range, rows: int, before: Previous | None) -> str | None:
    if before is None or before.rows == 0 or _within(rows / before.rows, allowed):
        return None
    return f"has {rows:,} rows, {rows / before.rows:.3g} times the {before.rows:,} of the input commit, not {_shown(allowed)}"


def _incompatible(lost: Sequence[tuple[Column, Column | None]]) -> str:
    parts = [
        f"column {old.name} was removed" if new is None else f"column {old.name} became {new.type}, was {old.type}"
        for old, new in lost
    ]
    return f"cannot be read as the table of the input commit: {', '.join(parts)}"


def _within(value: float, allowed: Range) -> bool:
    low, high = allowed
    return (low is None or value >= low) and (high is None or value <= high)


def _shown(allowed: Range) -> str:
    low, high = allowed
    if low is None:
        return f"at most {high:,}"
    return f"at least {low:,}" if high is None else f"{low:,} to {high:,}"
