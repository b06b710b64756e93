"""DuckDB and plain Python agree about random tables and rules. Spark is compared in tests/spark/test_data_checks.py."""

import tempfile
from pathlib import Path

from hypothesis import given
from tests.support import table_cases
from tests.support.random_tables import RandomTable, random_tables

from perago.data_checks import evaluate
from perago.duckdb_tables.tables import DuckTables


@given(random_tables())
def test_counts_are_those_of_plain_python(table: RandomTable) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        table.write(root)
        tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, root / "spill")
        measured = evaluate.evaluate([table.check()], tables)
        tables.close()
    assert dict(measured.bad) == table.bad(), measured.violations
    assert measured.rows == len(table.rows)
    assert bool(measured.violations) == bool(table.bad())
