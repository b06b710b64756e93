"""Every rule on DuckDB, many keys, and queries that are interrupted."""

import threading
from pathlib import Path
from typing import Annotated

import duckdb
import pytest
from tests.support import table_cases
from tests.support.table_cases import CASES, Case

from perago import Table, Unique, require_table
from perago.data_checks import evaluate
from perago.data_checks.port import UnreadableTable
from perago.duckdb_tables import tables as tables_module
from perago.duckdb_tables.tables import DuckTables


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case: Case, tmp_path: Path) -> None:
    root = tmp_path / "work"
    table_cases.prepare(root, case)
    tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, tmp_path / "spill")
    measured = table_cases.measure(case, tables)
    tables.close()
    table_cases.require_expected(case, measured)


def test_a_million_keys_need_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are not integers are grouped, and what does not fit into memory goes to disk."""
    monkeypatch.setattr(tables_module, "MEMORY", "150MB")
    root = tmp_path / "work"
    root.mkdir()
    with duckdb.connect() as connection:
        keys = "SELECT md5(i::VARCHAR) AS k, i % 7 AS n FROM range(1000000) t(i) UNION ALL SELECT md5('5'), 8"
        connection.sql(f"COPY ({keys}) TO '{root}/t.parquet' (FORMAT parquet)")
    tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, tmp_path / "spill")
    measured = evaluate.evaluate([require_table("t.parquet", key="k")], tables)
    tables.close()
    assert measured.violations == (
        "require_table('t.parquet') 2 of 1,000,001 rows share their k with another row: e4da3b7fbbce2345d7772b0674a318d5",
    )


@pytest.mark.parametrize(
    "ids", ["range(1000)", "range(-500, 500)", "[1, 1152921504606846976]", "[-9223372036854775808, 9223372036854775807]"]
)
def test_integers_are_counted_by_bits_or_not(tmp_path: Path, ids: str) -> None:
    class Row(Table):
        id: Annotated[int, Unique()]

    for more, bad in (("", 0), ("UNION ALL SELECT min(id) FROM t", 2)):
        root = tmp_path / str(bad)
        root.mkdir()
        with duckdb.connect() as connection:
            rows = f"WITH t AS (SELECT unnest({ids})::BIGINT AS id) SELECT * FROM t {more}"
            connection.sql(f"COPY ({rows}) TO '{root}/t.parquet' (FORMAT parquet)")
        tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, tmp_path / "spill")
        measured = evaluate.evaluate([require_table("t.parquet", Row)], tables)
        tables.close()
        assert sum(measured.bad.values()) == bad, measured


def test_an_interrupted_query_ends(tmp_path: Path) -> None:
    tables = DuckTables(tmp_path, {}, lambda _path: False, tmp_path / "spill")
    tables.query("SELECT 1")
    timer = threading.Timer(0.2, tables.interrupt)
    timer.start()
    with pytest.raises(UnreadableTable, match="INTERRUPT"):
        tables.query("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3")
    timer.join()
    tables.close()
