"""Compares ten data checks of a table with one scan of it, on DuckDB and Spark, and those of an unchanged table with a listing.

    .venv/bin/python bench/data_checks.py [--quick] [--json FILE]

A scan reads the columns that the rules read, and nothing else: SELECT count(a), count(b), … in the same engine, process and
table. Both take turns within each round; medians are compared. Exit code 1 if a target is missed. --quick uses fewer rows.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import duckdb
from pydantic import AwareDatetime

from perago import Between, In, Matches, OneOf, Table, Unique, require_table
from perago.data_checks import evaluate
from perago.data_checks.port import Measured, Previous, Tables
from perago.duckdb_tables.tables import DuckTables
from perago.model import FilePath
from perago.spark import engine, options
from perago.spark.tables import SETTINGS, SparkTables
from perago.workspace import diff, inspection, scan

LIMIT = 1.3
LISTING_LIMIT = 0.05
"""Seconds that the check of an unchanged table may take beside a listing."""
FILES = 8
PRODUCTS = 10_000
DRIVER = {"spark.driver.memory": "2g"}


class Order(Table):
    order_id: Annotated[int, Unique()]
    product_id: Annotated[int, In("products", "product_id")]
    quantity: Annotated[int, Between(1, 1_000)]
    status: Annotated[str, OneOf("new", "paid", "sent", "done")]
    country: Annotated[str, Matches("[A-Z]{2}")]
    amount: float
    price: Decimal
    day: date
    placed: AwareDatetime
    note: str | None


COLUMNS = tuple(Order.__annotations__)
CHECKS = [
    require_table("orders", Order, rows=(1, None), where={"paid": "amount >= 0 OR status = 'new'"}),
    require_table("orders", rows_change=(0.5, 2.0)),
]
"""Ten kinds of rules: type, null, unique, between, in set, matches, refers to another table, rows, rows changed, expression."""
_ROWS = """
SELECT i AS order_id, (hash(i) % {products})::BIGINT AS product_id, (1 + hash(i + 1) % 1000)::INTEGER AS quantity,
  (['new', 'paid', 'sent', 'done'])[1 + (hash(i + 2) % 4)::INTEGER] AS status,
  chr((65 + hash(i + 3) % 26)::INTEGER) || chr((65 + hash(i + 4) % 8)::INTEGER) AS country,
  (hash(i + 5) % 1000000) / 100.0::DOUBLE AS amount, ((hash(i + 6) % 1000000) / 100.0)::DECIMAL(12, 2) AS price,
  DATE '2026-01-01' + (hash(i + 7) % 200)::INTEGER AS day,
  TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL (hash(i + 8) % 20000000) SECOND AS placed,
  CASE WHEN hash(i + 9) % 10 = 0 THEN NULL ELSE 'note ' || (hash(i + 10) % 1000) END AS note
FROM range({low}, {high}) t(i)
"""


@dataclass(frozen=True)
class Figures:
    engine: str
    scan_seconds: float
    check_seconds: float
    unique_seconds: float
    """The part of the check that Unique takes, which is a query of its own."""
    ratio: float


def make_tables(root: Path, rows: int) -> None:
    for name in ("orders", "products"):
        (root / name).mkdir(parents=True)
    with duckdb.connect() as connection:
        for number in range(FILES):
            low, high = number * rows // FILES, (number + 1) * rows // FILES
            made = _ROWS.format(products=PRODUCTS, low=low, high=high)
            connection.execute(f"COPY ({made}) TO '{root}/orders/{number}.parquet' (FORMAT parquet)")
        products = f"SELECT i AS product_id FROM range({PRODUCTS}) t(i)"
        connection.execute(f"COPY ({products}) TO '{root}/products/0.parquet' (FORMAT parquet)")


def sizes(root: Path) -> dict[FilePath, int]:
    return {FilePath(str(path.relative_to(root))): path.stat().st_size for path in root.rglob("*.parquet")}


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def check(tables: Tables, rows: int, checks: list[require_table]) -> Measured:
    measured = evaluate.evaluate(checks, tables, Previous(rows))
    if measured.violations or measured.rows != rows:
        raise SystemExit(f"error: the checks must hold on {rows} rows: {measured}")
    return measured


def measure(name: str, open_tables: Callable[[], Tables], rows: int, rounds: int) -> Figures:
    """A scan, then the checks, in each round on tables that are opened anew; the first round warms up."""
    columns = ", ".join(f"count({column})" for column in COLUMNS)
    unique = [require_table("orders", type("Key", (Table,), {"__annotations__": {"order_id": Annotated[int, Unique()]}}))]
    plain = [require_table("orders", type("Key", (Table,), {"__annotations__": {"order_id": int}}))]
    scans, checked, keys = list[float](), list[float](), list[float]()
    for _ in range(rounds + 1):
        tables = open_tables()
        files = evaluate.table_files.find("orders", None, tables.files())
        scans.append(
            seconds(
                lambda tables=tables, files=files: tables.query(f"SELECT {columns} FROM {tables.open(files, frozenset()).view}")
            )
        )
        checked.append(seconds(lambda: check(open_tables(), rows, CHECKS)))
        keys.append(seconds(lambda: check(open_tables(), rows, unique)) - seconds(lambda: check(open_tables(), rows, plain)))
    scan_seconds, check_seconds = statistics.median(scans[1:]), statistics.median(checked[1:])
    unique_seconds = statistics.median(keys[1:])
    return Figures(name, scan_seconds, check_seconds, unique_seconds, check_seconds / scan_seconds)


def on_duckdb(root: Path, scratch: Path, rows: int, rounds: int) -> Figures:
    return measure("DuckDB", lambda: DuckTables(root, sizes(root), lambda _path: False, scratch / "spill"), rows, rounds)


def on_spark(root: Path, scratch: Path, rows: int, rounds: int) -> Figures:
    spark = engine.make(options.SparkOptions(scratch, properties=DRIVER))
    session = spark.session(SETTINGS)
    try:
        found = sizes(root)
        return measure("Spark", lambda: SparkTables(lambda: session, f"file://{root}/", found, lambda _path: False), rows, rounds)
    finally:
        session.close()
        spark.close()


def on_unchanged(root: Path, scratch: Path, rows: int) -> tuple[float, float]:
    """Seconds of a listing of the folder, and of the check of a table that the input commit has the evidence for."""
    work = str(root)
    before: diff.Manifest = {
        path: diff.FileEntry(status.size, None, status, status.executable) for path, status in scan.scan(work).files.items()
    }
    recorded = check(DuckTables(root, sizes(root), lambda _path: False, scratch / "spill"), rows, CHECKS)

    def unchanged() -> None:
        inspected = inspection.LocalInspection(lambda: root, lambda: scan.scan(work), before, scratch)
        if not evaluate.evaluate(CHECKS, inspected.tables(), None, recorded).unchanged:
            raise SystemExit("error: the table has not changed")
        inspected.close()

    listings = [seconds(lambda: scan.scan(work)) for _ in range(5)]
    return statistics.median(listings), statistics.median(seconds(unchanged) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows, rounds = (2_000_000 if chosen.quick else 10_000_000), 3
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as directory:
        root, scratch = Path(directory) / "work", Path(directory) / "scratch"
        scratch.mkdir()
        make_tables(root, rows)
        found = [run(root, scratch, rows, rounds) for run in (on_duckdb, on_spark)]
        listing, unchanged = on_unchanged(root, scratch, rows)
    print(f"{rows:,} rows, {len(COLUMNS)} columns, ten rules, {rounds} rounds")
    for one in found:
        verdict = "reached" if one.ratio <= LIMIT else "MISSED"
        print(
            f"{one.engine}: scan {one.scan_seconds:.2f} s, checks {one.check_seconds:.2f} s (Unique {one.unique_seconds:.2f} s): "
            f"{one.ratio:.2f} x a scan, target {LIMIT} x: {verdict}"
        )
    is_cheap = unchanged - listing <= LISTING_LIMIT
    print(
        f"unchanged table: {unchanged * 1000:.2f} ms, a listing of its folder {listing * 1000:.2f} ms, no file is read; "
        f"target {LISTING_LIMIT * 1000:g} ms more than a listing: {'reached' if is_cheap else 'MISSED'}"
    )
    if chosen.json:
        document = {"rows": rows, "engines": [asdict(one) for one in found], "listing": listing, "unchanged": unchanged}
        chosen.json.write_text(json.dumps(document, indent=2))
    return int(not is_cheap or any(one.ratio > LIMIT for one in found))


if __name__ == "__main__":
    sys.exit(main())
