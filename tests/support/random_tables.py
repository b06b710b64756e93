"""Random tables and rules, what plain Python says about them, and the same table as a file."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pydantic import AwareDatetime

from perago import Between, In, Matches, OneOf, Table, Unique, require_table

NAMES = ("plain", "With Space", "dot.ted", 'quo`te"d', "select")
"""Columns are called so: as SQL they all need quotes."""
_START = datetime(2026, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
_TYPES: dict[str, tuple[Any, Any, Any]] = {
    "int": (int, pa.int64(), st.integers(-5, 5)),
    "small": (int, pa.int8(), st.integers(-5, 5)),
    "float": (float, pa.float64(), st.sampled_from([-1.5, 0.0, 0.5, 2.0, math.nan, math.inf, -math.inf])),
    "str": (str, pa.string(), st.sampled_from(["", "a", "ab", "b\n", "É", "a'b", "\\", "A1", "x\u2028"])),
    "decimal": (Decimal, pa.decimal128(12, 2), st.integers(-300, 300).map(lambda n: Decimal(n) / 100)),
    "date": (date, pa.date32(), st.integers(0, 5).map(lambda n: date(2026, 1, 1) + timedelta(n))),
    "moment": (AwareDatetime, pa.timestamp("us", "UTC"), st.integers(0, 5).map(lambda n: _START + timedelta(hours=n))),
    "bool": (bool, pa.bool_(), st.booleans()),
}
_PATTERNS = ["[a-z]+", "a.*", ".", ".*", r"\w*", "(a|A)(b|1)?", r"[^b]*", r"\\|a'b"]
ALLOWED = (-1, 0, 1, 2)
"""The values of the table `other`."""


@dataclass(frozen=True)
class RandomTable:
    columns: dict[str, tuple[str, Any, bool, tuple[Any, ...]]]
    """By name: its kind, its annotation, whether null is allowed, its rules."""
    rows: list[dict[str, Any]]

    def check(self) -> Any:
        annotations = {
            name: (annotation | None) if nullable else annotation for name, (_, annotation, nullable, _) in self.columns.items()
        }
        annotated = {
            name: Annotated[annotation, *self.columns[name][3]] if self.columns[name][3] else annotation
            for name, annotation in annotations.items()
        }
        return require_table("t", type("Random", (Table,), {"__annotations__": annotated}))

    def write(self, root: Path) -> None:
        schema = pa.schema([(name, _TYPES[kind][1]) for name, (kind, *_) in self.columns.items()])
        (root / "t").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self.rows, schema=schema), root / "t" / "a.parquet")
        pq.write_table(pa.table({"v": pa.array(ALLOWED, pa.int32())}), root / "other.parquet")

    def bad(self) -> dict[str, int]:
        """What plain Python finds, as in `Measured.bad`."""
        found: dict[str, int] = {}
        for name, (_, _, nullable, rules) in self.columns.items():
            values = [row[name] for row in self.rows]
            present = [value for value in values if value is not None]
            if not nullable:
                found[f"{name} null"] = len(values) - len(present)
            for rule in rules:
                label, count = _broken(rule, present)
                found[f"{name} {label}"] = count
        return {rule: count for rule, count in found.items() if count}


def _broken(rule: Any, present: list[Any]) -> tuple[str, int]:
    match rule:
        case Between(low=low, high=high):
            return "between", sum(not _inside(value, low, high) for value in present)
        case OneOf(values=values):
            return "one of", sum(value not in values for value in present)
        case Matches(pattern=pattern):
            return "matches", sum(re.fullmatch(pattern, value, re.ASCII) is None for value in present)
        case In():
            return "in", sum(value not in ALLOWED for value in present)
        case _:
            counts = Counter(present)
            return "unique", sum(counts[value] > 1 for value in present)


def _inside(value: Any, low: Any, high: Any) -> bool:
    return (
        not (isinstance(value, float) and math.isnan(value)) and (low is None or value >= low) and (high is None or value <= high)
    )


@st.composite
def _rules(draw: st.DrawFn, kind: str, values: st.SearchStrategy[Any]) -> tuple[Any, ...]:
    options: list[st.SearchStrategy[Any]] = []
    finite = values.filter(lambda value: not (isinstance(value, float) and not math.isfinite(value)))
    if kind != "bool":
        options.append(st.lists(finite, min_size=2, max_size=2).map(sorted).map(lambda pair: Between(*pair)))
        options.append(finite.map(lambda low: Between(low, None)))
    if kind != "float":
        options.append(st.lists(values, min_size=1, max_size=3).map(lambda some: OneOf(*some)))
        options.append(st.just(Unique()))
    if kind == "str":
        options.append(st.sampled_from(_PATTERNS).map(Matches))
    if kind in {"int", "small", "decimal"}:
        options.append(st.just(In("other.parquet", "v")))
    chosen = draw(st.lists(st.one_of(options), max_size=3))
    return tuple({type(rule): rule for rule in chosen}.values())


@st.composite
def random_tables(draw: st.DrawFn) -> RandomTable:
    columns: dict[str, tuple[str, Any, bool, tuple[Any, ...]]] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        kind = draw(st.sampled_from(sorted(_TYPES)))
        annotation, _, values = _TYPES[kind]
        columns[name] = (kind, annotation, draw(st.booleans()), draw(_rules(kind, values)))
    row = st.fixed_dictionaries({name: st.none() | _TYPES[kind][2] for name, (kind, *_) in columns.items()})
    return RandomTable(columns, draw(st.lists(row, max_size=8)))
