"""Schemas of pandera as data checks of a local table."""

from pathlib import Path

import pandera.pandas as pa
from pandera.typing import Series
from tests.support import table_cases

from perago import require_table
from perago.data_checks import declaration_digest, evaluate
from perago.data_checks.port import Measured
from perago.duckdb_tables.tables import DuckTables


class Orders(pa.DataFrameModel):
    order_id: Series[int] = pa.Field(unique=True)
    quantity: Series[int] = pa.Field(ge=1, le=100)


def measure(root: Path, text: str) -> Measured:
    root.mkdir(exist_ok=True)
    (root / "orders.csv").write_text(text)
    tables = DuckTables(root, table_cases.sizes(root), lambda _path: False, root / "spill")
    measured = evaluate.evaluate([require_table("orders.csv", Orders, rows=(1, None))], tables)
    tables.close()
    return measured


def test_accepted_and_refused_without_values(tmp_path: Path) -> None:
    assert measure(tmp_path / "a", "order_id,quantity\n1,5\n2,100\n").violations == ()
    broken = measure(tmp_path / "b", "order_id,quantity\n1,777\n1,0\n3,1\n").violations
    assert len(broken) == 3
    assert all(text.startswith("require_table('orders.csv') pandera: column ") for text in broken)
    assert any("quantity: 1 cases of less_than_or_equal_to(100)" in text for text in broken)
    assert not any("777" in text for text in broken)
    (missing,) = measure(tmp_path / "c", "order_id\n1\n").violations
    assert "quantity" in missing


def test_a_schema_of_pandera_is_never_taken_as_evaluated() -> None:
    assert declaration_digest.of([require_table("orders.csv", Orders)], "duckdb") == ""
