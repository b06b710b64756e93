"""The rules of a column, written in `Annotated`: `Annotated[int, Unique(), Between(1, 1000)]`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING

from perago.declare import relative_path
from perago.declare.problems import DeclaredValue, Problem
from perago.declare.tables import patterns
from perago.declare.tables.column_types import Kind

_MOST_VALUES = 1000


def path_problems(field: str, given: object) -> Iterator[Problem]:
    """A path inside the workspace, as in the checks of files; a trailing `/` is allowed."""
    name = relative_path.as_text(given)
    if not isinstance(name, str):
        yield Problem(field, f"must be a str or a PurePath such as 'clean/orders', not {given!r}")
    elif name.startswith("/"):
        yield Problem(field, f"{name!r} is absolute; write it relative to the workspace root: {name.lstrip('/')!r}")
    elif (wrong := relative_path.problem(name.removesuffix("/"))) is not None:
        yield Problem(field, wrong)


def path_text(given: object) -> str:
    return str(relative_path.as_text(given)).removesuffix("/")


@dataclass(frozen=True, slots=True)
class Unique(DeclaredValue):
    """No two rows have the same value. Null is not a value. The column names bad rows in messages."""


@dataclass(frozen=True, slots=True)
class In(DeclaredValue):
    """Every value but null occurs in that column of another table of the workspace."""

    path: str | PurePath
    column: str
    format: str | None = None

    def value_problems(self) -> Iterator[Problem]:
        yield from path_problems("path", self.path)
        yield from column_problems("column", self.column)
        yield from format_problems("format", self.format)


@dataclass(frozen=True, slots=True)
class Between(DeclaredValue):
    """Every value but null is at least `low` and at most `high`; None leaves a side open. NaN is outside."""

    low: object
    high: object

    def value_problems(self) -> Iterator[Problem]:
        given = [(name, value) for name, value in (("low", self.low), ("high", self.high)) if value is not None]
        wrong = [Problem(name, f"must be a number, str, date or datetime, not {value!r}") for name, value in given if _odd(value)]
        yield from wrong
        if any(isinstance(value, float) and math.isnan(value) for _, value in given):
            yield Problem("", "NaN is no bound; write None to leave a side open")
        if not given:
            yield Problem("", "needs low or high; write Between(1, None) for values from 1 on")
        if len(given) > 1 and not wrong:
            yield from _order_problems(self.low, self.high)


@dataclass(frozen=True, slots=True)
class OneOf(DeclaredValue):
    """Every value but null is one of these: `OneOf("new", "paid")`."""

    values: tuple[object, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, *values: object) -> None: ...

    @classmethod
    def bind_arguments(cls, args: tuple[object, ...], given: dict[str, object]) -> tuple[dict[str, object], list[Problem]]:
        return {"values": args}, [Problem(name, "unknown; OneOf takes its values only") for name in given]

    def value_problems(self) -> Iterator[Problem]:
        if not self.values:
            yield Problem("", "needs values; write OneOf('new', 'paid')")
        if len(self.values) > _MOST_VALUES:
            yield Problem("", f"has {len(self.values)} values, more than {_MOST_VALUES}; write them to a table and use In(...)")
        for index, value in enumerate(self.values):
            if value is None:
                yield Problem(f"[{index}]", "must not be None; write the column as 'str | None' to allow null")
            elif _odd(value) and type(value) is not bool:
                yield Problem(f"[{index}]", f"must be a number, str, bool, date or datetime, not {value!r}")
            elif type(value) is float and math.isnan(value):
                yield Problem(f"[{index}]", "must not be NaN, which equals nothing")


@dataclass(frozen=True, slots=True)
class Matches(DeclaredValue):
    """Every text but null matches the regular expression from its first to its last character."""

    pattern: str

    def value_problems(self) -> Iterator[Problem]:
        if not isinstance(self.pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a declaration may hold anything
            yield Problem("pattern", f"must be a str such as '[A-Z]{{3}}', not {self.pattern!r}")
        elif (wrong := patterns.problem(self.pattern)) is not None:
            yield Problem("pattern", wrong)


Rule = Unique | In | Between | OneOf | Matches
RULES = (Unique, In, Between, OneOf, Matches)

FORMATS = ("parquet", "csv", "json", "orc", "delta")


def column_problems(field: str, given: object) -> Iterator[Problem]:
    if not isinstance(given, str) or not given:
        yield Problem(field, f"must be the name of a column, not {given!r}")


def format_problems(field: str, given: object) -> Iterator[Problem]:
    if given is not None and given not in FORMATS:
        yield Problem(
            field, f"must be one of {', '.join(map(repr, FORMATS))}, not {given!r}; leave it out to find it by the files"
        )


_BOUNDS: dict[Kind, tuple[type, ...]] = {
    Kind.INTEGER: (int,),
    Kind.FLOAT: (int, float),
    Kind.DECIMAL: (int, Decimal),
    Kind.TEXT: (str,),
    Kind.DATE: (date,),
    Kind.NAIVE: (datetime,),
    Kind.AWARE: (datetime,),
    Kind.DATETIME: (datetime,),
    Kind.BOOLEAN: (bool,),
}


def fits(rule: Rule, kind: Kind) -> str | None:
    """Why the rule cannot hold for a column of this kind; None if it can."""
    if isinstance(rule, Unique | In):
        return f"{_name(rule)} needs a single value, not {kind.value}" if kind in {Kind.LIST, Kind.MAP, Kind.STRUCT} else None
    if isinstance(rule, Matches):
        return None if kind is Kind.TEXT else f"Matches needs a str column, not {kind.value}"
    values = rule.values if isinstance(rule, OneOf) else (rule.low, rule.high)
    unfit = [value for value in values if value is not None and not _of_kind(value, kind)]
    if unfit:
        return f"{_name(rule)} has {unfit[0]!r}, which is no value of a column of type {kind.value}"
    if kind is Kind.BOOLEAN and isinstance(rule, Between):
        return "Between needs an order; write OneOf(True) or OneOf(False)"
    return None


def _of_kind(value: object, kind: Kind) -> bool:
    if kind is Kind.DATE:
        return type(value) is date
    if type(value) is bool:
        return kind is Kind.BOOLEAN
    if isinstance(value, datetime) and kind in {Kind.NAIVE, Kind.AWARE}:
        return (value.tzinfo is None) == (kind is Kind.NAIVE)
    return isinstance(value, _BOUNDS.get(kind, ()))


def _name(rule: Rule) -> str:
    return type(rule).__name__


def _odd(value: object) -> bool:
    return not isinstance(value, int | float | Decimal | str | date) or type(value) is bool


def _order_problems(low: object, high: object) -> Iterator[Problem]:
    try:
        if low > high:  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]  compared as they are, see below
            yield Problem("low", f"{low!r} is above high={high!r}; exchange them")
    except (TypeError, ArithmeticError):
        yield Problem("", f"low={low!r} and high={high!r} cannot be compared; write both with the same type")
