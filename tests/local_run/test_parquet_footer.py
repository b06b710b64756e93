"""The footer of Parquet files: compared with pyarrow, and with bytes that are none."""

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.local_run import parquet_footer

SCHEMA: Any = pa.schema(
    [
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("u64", pa.uint64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("ms")),
        ("price", pa.decimal128(12, 3)),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
EXPECTED = {
    "b": "boolean",
    "i8": "int8",
    "i32": "int32",
    "i64": "int64",
    "u64": "uint64",
    "f": "float",
    "d": "double",
    "s": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp without zone",
    "price": "decimal(12, 3)",
    "tags": "list<string>",
    "place": "struct<x: int32, y: struct<z: string>>",
    "counts": "map<string, int64>",
}


def test_every_type_has_its_name(tmp_path: Path) -> None:
    row = {
        "day": dt.date(2026, 1, 1),
        "price": decimal.Decimal("1.5"),
        "tags": ["a"],
        "place": {"x": 1, "y": {"z": "q"}},
        "counts": [("a", 1)],
    }
    pq.write_table(pa.Table.from_pylist([row] * 7, schema=SCHEMA), tmp_path / "all.parquet", row_group_size=2)
    assert parquet_footer.read(tmp_path / "all.parquet") == (7, EXPECTED)


@pytest.mark.parametrize("rows", [0, 1, 200_000])
def test_the_rows_are_those_that_pyarrow_counts(tmp_path: Path, rows: int) -> None:
    names = {f"column {number}": pa.array(range(rows)) for number in range(40)}
    pq.write_table(pa.table(names), tmp_path / "t.parquet")
    counted, columns = parquet_footer.read(tmp_path / "t.parquet")
    assert counted == rows == pq.read_metadata(tmp_path / "t.parquet").num_rows
    assert list(columns) == list(names)


@given(data=st.binary(max_size=400), with_tail=st.booleans())
def test_other_bytes_are_refused_and_nothing_else_happens(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, with_tail: bool
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "x.parquet"
    path.write_bytes(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1" if with_tail else data)
    try:
        rows, columns = parquet_footer.read(path)
    except parquet_footer.NotParquet:
        return
    assert isinstance(rows, int)
    assert isinstance(columns, dict)


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for size in (0, 3, 11, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        with pytest.raises(parquet_footer.NotParquet):
            parquet_footer.read(tmp_path / "cut.parquet")
    with pytest.raises(parquet_footer.NotParquet):
        parquet_footer.read(tmp_path / "missing.parquet")
