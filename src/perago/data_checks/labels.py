"""What a commit says about the data checks that held for it: one entry of its metadata per table.

The entry is about the tree of that very commit. So an attempt with this commit as its input need not evaluate the same checks
again on a table that it did not change.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from perago.data_checks.port import Measured

PREFIX = "perago.table."
_MOST_RULES = 20


def write(found: Sequence[Measured], prefix: str) -> dict[str, str]:
    """`prefix` is that of the workspace's objects, empty or with a trailing `/`."""
    return {f"{PREFIX}{prefix}{one.table}": json.dumps(_entry(one), separators=(",", ":")) for one in found}


def read(metadata: Mapping[str, str], prefix: str = "") -> dict[str, Measured]:
    """By the table's path below `prefix`. Entries that cannot be read are left out: then the checks are evaluated again."""
    begin = f"{PREFIX}{prefix}"
    tables = {key.removeprefix(begin): value for key, value in metadata.items() if key.startswith(begin)}
    found = {table: _measured(table, value) for table, value in tables.items()}
    return {table: one for table, one in found.items() if one is not None}


def _entry(one: Measured) -> dict[str, Any]:
    bad = dict(sorted(one.bad.items(), key=lambda item: -item[1])[:_MOST_RULES])
    return {
        "rows": one.rows,
        "rules": one.rules,
        **({"bad": bad} if bad else {}),
        "seconds": round(one.seconds, 3),
        "declaration": one.declaration,
        **({"unchanged": True} if one.unchanged else {}),
    }


def _measured(table: str, value: str) -> Measured | None:
    try:
        given = json.loads(value)
        rows, bad = given["rows"], given.get("bad", {})
        counts = {str(rule): int(count) for rule, count in bad.items()}
        seconds, declaration = float(given["seconds"]), str(given["declaration"])
        return Measured(table, None if rows is None else int(rows), int(given["rules"]), counts, seconds, declaration)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
