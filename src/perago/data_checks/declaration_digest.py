"""A digest of what checks require of a table, to recognise that the same was required of a commit's table before."""

import hashlib
import re
from collections.abc import Iterator, Sequence

from perago.declare.tables import rules
from perago.declare.tables.require_table import RequireTable, is_pandera

_EDITION = 1
"""To be raised when a rule gets another meaning."""
_CHANGING = re.compile(
    r"\b(now|today|current_\w+|localtime\w*|get_current_\w+|rand\w*|uuid|curdate|unix_timestamp)\b", re.IGNORECASE
)
"""Functions whose value is another one each time: with one of them, an expression that held may not hold any more."""


def of(checks: Sequence[RequireTable], engine: str) -> str:
    """Empty if it cannot be known that the checks mean the same the next time."""
    if any(check.schema is not None and is_pandera(check.schema) for check in checks):
        return ""
    expressions = [expression for check in checks for expression in (check.where or {}).values()]
    if any(_CHANGING.search(expression) for expression in expressions):
        return ""
    # An expression is in the SQL of its engine.
    parts = [str(_EDITION), engine if expressions else "", *(repr(_required(check)) for check in checks)]
    return hashlib.sha256("\n".join(parts).encode(errors="backslashreplace")).hexdigest()[:16]


def _required(check: RequireTable) -> tuple[object, ...]:
    where = tuple((check.where or {}).items())
    whole = (check.name, check.format, check.rows, where, check.max_bad, check.key_columns, check.extra)
    return (*whole, tuple(map(repr, check.columns())))


def referred_tables(check: RequireTable) -> Iterator[str]:
    """The other tables that its rules look at."""
    return (rules.path_text(rule.path) for column in check.columns() for rule in column.rules if isinstance(rule, rules.In))
