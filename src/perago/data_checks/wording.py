"""The texts of violations: table, column, rule, bad rows of all rows, and at most five keys; never more of the data."""

from collections.abc import Sequence
from typing import Any

from perago.data_checks.port import Previous

_LONGEST_KEY = 60


def unreadable(reason: Exception) -> str:
    return str(reason) if str(reason).startswith("found no ") else f"cannot be evaluated: {reason}"


def not_evaluable(rule: str, reason: Exception) -> str:
    return f"rule {rule!r} cannot be evaluated: {reason}"


def bad_rows(bad: int, rows: int, says: str, examples: str, max_bad: float, before: Previous | None) -> str:
    allowed = f", more than max_bad={max_bad:g} allows" if max_bad else ""
    had = "" if before is None else f"; the input commit has {before.rows:,} rows"
    return f"{bad:,} of {rows:,} rows {says}{allowed}{examples}{had}"


def keys(names: Sequence[str], found: Sequence[tuple[Any, ...]]) -> str:
    """`: order_id 17, 90`; of a key with several columns `: (day, shop) (2026-07-01, 7), …`."""
    if not found:
        return ""
    shown = ", ".join(_row(row) for row in found)
    if not names:
        return f": {shown}"
    return f": {names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} {shown}"


def _row(row: tuple[Any, ...]) -> str:
    values = [_value(value) for value in row]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _value(value: object) -> str:
    text = "null" if value is None else " ".join(str(value).split())
    return text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + "…"
