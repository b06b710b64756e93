"""Every rule of data checks on small tables: accepted, refused with its text, not evaluable. All engines run the same cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import duckdb
from pydantic import AwareDatetime, NaiveDatetime

from perago import Between, In, Matches, OneOf, Table, Unique, require_table
from perago.data_checks import evaluate
from perago.data_checks.port import Measured, Previous, Tables
from perago.model import FilePath

Engine = Callable[[Path], Tables]
"""Makes the tables of a folder."""

ROWS = """
SELECT * FROM (VALUES
  (1::BIGINT, 10::INTEGER, 'ann', 1.5::DOUBLE, 1.25::DECIMAL(10, 2), DATE '2026-01-01', TIMESTAMPTZ '2026-01-01 10:00:00+00',
   TIMESTAMP '2026-01-01 10:00:00', true, 'x'::BLOB, [1, 2], MAP {'a': 1}, {'city': 'Rome', 'zip': 1}),
  (2, 20, 'bob', 2.5, 2.50, DATE '2026-01-02', TIMESTAMPTZ '2026-01-01 12:00:00+02', TIMESTAMP '2026-01-02 10:00:00', false,
   'y', [3], MAP {'b': 2}, {'city': NULL, 'zip': 2}),
  (3, 30, NULL, 'NaN'::DOUBLE, 3.75, DATE '2026-01-03', TIMESTAMPTZ '2026-01-03 10:00:00+00', TIMESTAMP '2026-01-03 10:00:00',
   true, 'z', [], MAP {}, NULL),
  (3, 40, 'O''Hara', 4.5, 99.99, DATE '2026-02-01', TIMESTAMPTZ '2026-02-01 10:00:00+00', TIMESTAMP '2026-02-01 10:00:00', NULL,
   '', [4, 5], MAP {'c': 3}, {'city': 'Oslo', 'zip': NULL})
) t(id, n, name, amount, price, day, moment, seen, ok, raw, tags, counts, place)
"""


class Place(Table):
    city: str | None
    zip: int | None


class Everything(Table):
    id: int
    n: int
    name: str | None
    amount: float
    price: Decimal
    day: date
    moment: AwareDatetime
    seen: NaiveDatetime
    ok: bool | None
    raw: bytes
    tags: list[int]
    counts: dict[str, int]
    place: Place | None


def one(annotation: Any, name: str = "n") -> type[Table]:
    """A table with one declared column."""
    return type("One", (Table,), {"__annotations__": {name: annotation}})


class StrictPlace(Table):
    city: str
    zip: Annotated[int | None, Between(2, None)]


class Keyed(Table):
    n: Annotated[int, Unique()]
    name: Annotated[str | None, Matches("[a-z]+")]
    price: Annotated[Decimal, Between(Decimal("1.25"), Decimal("99.98"))]


@dataclass(frozen=True)
class Case:
    """A check of the table `t`, and the ends of its violations; none if it holds."""

    name: str
    check: Any
    violations: tuple[str, ...] = ()
    before: Previous | None = None
    only: str = ""
    """The engine that this case is about."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further files as text."""


def nth(number: int) -> datetime:
    return datetime(2026, 1, number, 10, tzinfo=timezone.utc)  # noqa: UP017


CASES = [
    Case("types hold", require_table("t", Everything)),
    Case(
        "columns beyond the schema",
        require_table("t", one(int), extra=False),
        ("has columns that are not declared: id, name, amount, price, day, …",),
    ),
    Case("type refused", require_table("t", one(str, "price")), ("column price has type", "not str")),
    Case(
        "time zone refused",
        require_table("t", one(NaiveDatetime, "moment")),
        ("column moment has type", "not datetime without a time zone"),
    ),
    Case("element type refused", require_table("t", one(list[str], "tags")), ("column tags has type", "not list[str]")),
    Case("missing", require_table("t", one(int, "absent")), ("column absent is missing",)),
    Case("null refused", require_table("t", one(str, "name")), ("1 of 4 rows have null in column name",)),
    Case(
        "nested",
        require_table("t", one(StrictPlace | None, "place")),
        ("1 of 4 rows have null in column place.city", "1 of 4 rows are not at least 2 in column place.zip"),
    ),
    Case("unique holds", require_table("t", one(Annotated[int, Unique()]))),
    Case(
        "unique refused",
        require_table("t", one(Annotated[int, Unique()], "id")),
        ("2 of 4 rows share their value in column id with another row: 3",),
    ),
    Case("key holds", require_table("t", key=["id", "n"])),
    Case("key refused", require_table("t", key=["id"]), ("2 of 4 rows share their id with another row: 3",)),
    Case("key missing", require_table("t", key=["id", "nr"]), ("column nr of its key is missing",)),
    Case("between holds", require_table("t", one(Annotated[int, Between(10, 40)]))),
    Case(
        "between refused",
        require_table("t", one(Annotated[int, Between(11, 39)])),
        ("2 of 4 rows are not between 11 and 39 in column n",),
    ),
    Case(
        "between with NaN",
        require_table("t", one(Annotated[float, Between(None, 100)], "amount")),
        ("1 of 4 rows are not at most 100 in column amount",),
    ),
    Case(
        "between dates",
        require_table("t", one(Annotated[date, Between(date(2026, 1, 2), None)], "day")),
        ("1 of 4 rows are not at least 2026-01-02 in column day",),
    ),
    Case(
        "between moments",
        require_table("t", one(Annotated[AwareDatetime, Between(nth(1), nth(3))], "moment")),
        ("1 of 4 rows are not between",),
    ),
    Case(
        "between naive",
        require_table("t", one(Annotated[NaiveDatetime, Between(datetime.fromisoformat("2026-01-02"), None)], "seen")),
        ("1 of 4 rows are not at least",),
    ),
    Case("one of holds", require_table("t", one(Annotated[str | None, OneOf("ann", "bob", "O'Hara")], "name"))),
    Case(
        "one of refused",
        require_table("t", one(Annotated[str | None, OneOf("ann", "bob")], "name")),
        ("1 of 4 rows are not one of 'ann', 'bob' in column name",),
    ),
    Case(
        "one of booleans",
        require_table("t", one(Annotated[bool | None, OneOf(True)], "ok")),
        ("1 of 4 rows are not one of True in column ok",),
    ),
    Case("matches holds", require_table("t", one(Annotated[str | None, Matches(r"[A-Za-z'\\]+")], "name"))),
    Case(
        "matches refused",
        require_table("t", one(Annotated[str | None, Matches("^[a-z]+$")], "name")),
        ("1 of 4 rows do not match '^[a-z]+$' in column name",),
    ),
    Case(
        "matches the whole value",
        require_table("t", one(Annotated[str | None, Matches("an|bob|O'Har.")], "name")),
        ("1 of 4 rows do not match",),
    ),
    Case(
        "refers holds",
        require_table("t", one(Annotated[int, In("other.csv", "id")])),
        files={"other.csv": "id,x\n10,a\n20,b\n30,c\n40,d\n40,e\n"},
    ),
    Case(
        "refers refused",
        require_table("t", one(Annotated[int, In("other.csv", "id")])),
        ("1 of 4 rows refer to nothing in other.csv.id from column n",),
        files={"other.csv": "id\n10\n20\n30\n"},
    ),
    Case(
        "refers to no table",
        require_table("t", one(Annotated[int, In("other", "id")])),
        ("rule 'n in' cannot be evaluated: found no such table",),
    ),
    Case(
        "refers to no column",
        require_table("t", one(Annotated[int, In("t", "nr")])),
        ("rule 'n in' cannot be evaluated: t has no column nr",),
    ),
    Case(
        "refers to another type",
        require_table("t", one(Annotated[int, In("t", "name")])),
        ("rule 'n in' cannot be evaluated: column name of t has type",),
    ),
    Case("rows hold", require_table("t", rows=(4, 4))),
    Case("rows refused", require_table("t", rows=(5, None)), ("has 4 rows, not at least 5",)),
    Case(
        "rows refused with those before",
        require_table("t", rows=(1, 3)),
        ("has 4 rows, not 1 to 3; the input commit has 3",),
        Previous(3),
    ),
    Case("rows changed", require_table("t", rows_change=(0.5, 2)), (), Previous(2)),
    Case(
        "rows changed too much",
        require_table("t", rows_change=(0.5, 2)),
        ("has 4 rows, 4 times the 1 of the input commit, not 0.5 to 2",),
        Previous(1),
    ),
    Case("nothing to compare with", require_table("t", rows_change=(0.5, 2), compatible=True)),
    Case("where holds", require_table("t", where={"small": "n < 50 AND price > 0"})),
    Case("where null passes", require_table("t", where={"named": "name > 'a' OR name LIKE 'O%'"})),
    Case(
        "where refused", require_table("t", where={"small": "n < 40"}, key="n"), ("1 of 4 rows are not 'small' (n < 40): n 40",)
    ),
    Case("where within max_bad", require_table("t", where={"small": "n < 40"}, max_bad=0.25)),
    Case(
        "where beyond max_bad",
        require_table("t", where={"small": "n < 30"}, max_bad=0.25),
        ("2 of 4 rows are not 'small' (n < 30), more than max_bad=0.25 allows",),
    ),
    Case(
        "where without such a column",
        require_table("t", where={"small": "nr < 30"}),
        ("rule 'where small' cannot be evaluated: ",),
    ),
    Case(
        "where fails on a value",
        require_table("t", where={"odd": "CAST(name AS INTEGER) > 1", "small": "n < 40"}),
        ("rule 'where odd' cannot be evaluated: ", "1 of 4 rows are not 'small'"),
    ),
    Case(
        "keys of bad rows",
        require_table("t", Keyed),
        (
            "1 of 4 rows do not match '[a-z]+' in column name: n 40",
            "1 of 4 rows are not between 1.25 and 99.98 in column price: n 40",
        ),
    ),
    Case("no keys", require_table("t", Keyed, keys=False), ("in column name", "in column price")),
    Case("no table", require_table("absent", rows=(1, None)), ("require_table('absent') found no such table",)),
    Case(
        "not Parquet",
        require_table("broken.parquet"),
        ("require_table('broken.parquet') cannot be evaluated: ",),
        files={"broken.parquet": "no Parquet at all"},
    ),
    Case(
        "unknown format",
        require_table("notes"),
        ("cannot be evaluated: the format of notes is not known by its name",),
        files={"notes": "x"},
    ),
    Case(
        "two formats",
        require_table("mixed"),
        ("cannot be evaluated: holds files of several formats (csv and json)",),
        files={"mixed/a.csv": "a\n1\n", "mixed/b.json": '{"a": 1}\n'},
    ),
    Case(
        "CSV holds",
        require_table(
            "c.csv",
            type(
                "C",
                (Table,),
                {"__annotations__": {"id": Annotated[int, Unique(), Between(1, 9)], "day": date, "x": float | None}},
            ),
            where={"positive": "y > 0"},
        ),
        files={"c.csv": "id,day,x,y\n1,2026-01-01,,5\n2,2026-02-28,1e3,6\n"},
    ),
    Case(
        "CSV types refused",
        require_table("c.csv", type("C", (Table,), {"__annotations__": {"id": int, "day": date, "ok": bool}}), key="id"),
        (
            "1 of 3 rows have no int in column id",
            "1 of 3 rows have no date in column day: id 2",
            "1 of 3 rows have null in column ok: id 1",
        ),
        files={"c.csv": "id,day,ok\n1,2026-01-01,\n2,2026-02-30,true\n3.5,2026-01-01,false\n"},
    ),
    Case(
        "CSV quoted",
        require_table("c.csv", one(Annotated[str, Matches(r'a,"b"\n|')], "s"), rows=(2, 2)),
        files={"c.csv": 's,t\n"a,""b""\n",1\n"",2\n'},
    ),
    Case(
        "JSON holds",
        require_table(
            "j",
            type(
                "J",
                (Table,),
                {"__annotations__": {"id": Annotated[int, Unique()], "x": float, "day": date | None, "inner": one(str, "s")}},
            ),
        ),
        files={
            "j/a.json": '{"id": 1, "x": 1.5, "day": "2026-01-01", "inner": {"s": "q"}}\n{"id": 2, "x": 2, "inner": {"s": "r"}}\n',
            "j/b.json": "",
        },
    ),
    Case(
        "JSON refused",
        require_table("j.json", one(Annotated[int, Between(1, 2)], "id")),
        ("1 of 2 rows are not between 1 and 2 in column id",),
        files={"j.json": '{"id": 1}\n{"id": 3}\n'},
    ),
    Case("empty JSON", require_table("j.json", one(int, "id"), rows=(0, 0)), files={"j.json": ""}),
    Case(
        "empty CSV",
        require_table("c.csv", one(int, "id"), rows=(1, None)),
        ("has 0 rows, not at least 1",),
        files={"c.csv": "id\n"},
    ),
    Case(
        "partitions",
        require_table(
            "p", type("P", (Table,), {"__annotations__": {"day": date | None, "id": int, "part": Annotated[int, Between(1, 1)]}})
        ),
        ("1 of 3 rows are not between 1 and 1 in column part",),
        files={
            "p/day=2026-01-01/part=1/a.csv": "id\n1\n",
            "p/day=2026-01-02/part=2/a.csv": "id\n2\n",
            "p/day=__HIVE_DEFAULT_PARTITION__/part=1/a.csv": "id\n3\n",
        },
    ),
    Case(
        "ORC",
        require_table("o.orc"),
        ("is an ORC table, which only a Spark task can check",),
        only="duckdb",
        files={"o.orc": "x"},
    ),
    Case(
        "Delta",
        require_table("d"),
        ("is a Delta table: a local task needs DuckDB's extension",),
        only="duckdb",
        files={"d/_delta_log/0.json": "{}", "d/a.parquet": "x"},
    ),
]
"""In one list, so that an engine can run all of them on one folder."""


def prepare(root: Path, case: Case) -> None:
    """The table `t` and the files of the case."""
    (root / "t").mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.sql(f"COPY ({ROWS}) TO '{root}/t/a.parquet' (FORMAT parquet)")
    for name, text in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def sizes(root: Path) -> dict[FilePath, int]:
    return {FilePath(str(path.relative_to(root))): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def measure(case: Case, tables: Tables) -> Measured:
    return evaluate.evaluate([case.check], tables, case.before)


def require_expected(case: Case, measured: Measured) -> None:
    """The violations contain the expected texts, in some order, and there are no others."""
    text = " | ".join(measured.violations)
    assert bool(measured.violations) == bool(case.violations), f"{case.name}: {text}"
    assert all(expected in text for expected in case.violations), f"{case.name}: {text}"
    assert len(measured.violations) <= max(len(case.violations), 1), f"{case.name}: {text}"
    assert "Hara" not in text, f"{case.name}: {text}"
