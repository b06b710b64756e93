"""Every rule on DuckDB."""

from pathlib import Path

import pytest
from tests.support import table_cases
from tests.support.table_cases import CASES, Case

from perago.duckdb_tables.tables import DuckTables


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case: Case, tmp_path: Path) -> None:
    root = tmp_path / "work"
    table_cases.prepare(root, case)
    tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, tmp_path / "spill")
    measured = table_cases.measure(case, tables)
    tables.close()
    table_cases.require_expected(case, measured)
