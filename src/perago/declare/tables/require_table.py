"""`require_table`: the check of a table's data, and everything that can be wrong with its declaration."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePath
from typing import Any, TypeGuard

from perago.declare.problems import DeclaredValue, Problem
from perago.declare.tables import rules, table
from perago.declare.tables.table import DeclaredColumn, Table

_COMPARISONS = "compares the result with the input; declare it in post"


@dataclass(frozen=True, slots=True)
class RequireTable(DeclaredValue):
    """The data of a table: a file, or a directory of files, of the workspace.

    `rows` and `rows_change` are ranges `(least, most)` in which None leaves a side open; `rows_change` is the number of rows
    divided by that of the input commit. `where` has SQL expressions by name; a row is bad if one is false, as in a CHECK
    constraint of SQL, and null is not false. `max_bad` is the share of rows that may break a rule. `key` names the columns whose
    values distinguish rows: they must be unique, and messages name bad rows by them unless `keys` is False. `extra` allows
    columns that the schema does not declare. `compatible` requires that readers of the input commit's table can read this one.
    """

    path: str | PurePath
    schema: type | None = None
    _: KW_ONLY
    rows: tuple[int | None, int | None] | None = None
    rows_change: tuple[float | None, float | None] | None = None
    where: Mapping[str, str] | None = None
    max_bad: float = 0.0
    key: str | Sequence[str] | None = None
    compatible: bool = False
    extra: bool = True
    format: str | None = None
    keys: bool = True

    def __str__(self) -> str:
        return f"require_table({rules.path_text(self.path)!r})"

    @property
    def name(self) -> str:
        return rules.path_text(self.path)

    @property
    def compares(self) -> bool:
        """Whether it needs to know the table of the input commit."""
        return self.rows_change is not None or self.compatible

    @property
    def key_columns(self) -> tuple[str, ...]:
        if self.key is None:
            return ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def columns(self) -> list[DeclaredColumn]:
        """Of a `Table`; none without a schema, or for one of pandera."""
        return table.read(self.schema)[0] if self.schema is not None and is_table(self.schema) else []

    def value_problems(self) -> Iterator[Problem]:
        yield from rules.path_problems("path", self.path)
        yield from _schema_problems(self.schema)
        yield from _rows_problems(self.rows)
        yield from _range_problems("rows_change", self.rows_change, "(0.5, 2.0)")
        yield from _where_problems(self.where)
        if not _is_number(self.max_bad) or not 0 <= self.max_bad < 1:
            yield Problem("max_bad", f"must be a share of the rows from 0 to below 1, such as 0.001, not {self.max_bad!r}")
        yield from _key_problems(self.key)
        for name in ("compatible", "extra", "keys"):
            if type(getattr(self, name)) is not bool:
                yield Problem(name, f"must be True or False, not {getattr(self, name)!r}")
        yield from rules.format_problems("format", self.format)
        if self.extra is False and self.schema is None:
            yield Problem("extra", "needs a schema: without one no column is declared")

    def pre_problems(self) -> Iterator[Problem]:
        """What is wrong with it as a check before the body."""
        if self.rows_change is not None:
            yield Problem("rows_change", _COMPARISONS)
        if self.compatible is True:
            yield Problem("compatible", _COMPARISONS)


def is_table(schema: object) -> TypeGuard[type[Table]]:
    return isinstance(schema, type) and issubclass(schema, Table)


def is_pandera(schema: object) -> bool:
    """Whether it is a `DataFrameModel`; pandera is not imported to find out."""
    return isinstance(schema, type) and any(base.__module__.partition(".")[0] == "pandera" for base in schema.__mro__)


def _schema_problems(schema: object) -> Iterator[Problem]:
    if schema is None or is_pandera(schema):
        return
    if not is_table(schema):
        yield Problem(
            "schema", f"must be a class that is derived from perago.Table, or a DataFrameModel of pandera, not {schema!r}"
        )
    elif schema is Table:
        yield Problem("schema", "must be a class of your own: class Order(Table): ...")
    else:
        yield from (problem.under("schema") for problem in table.read(schema)[1])


def _rows_problems(rows: Any) -> Iterator[Problem]:
    wrong = list(_range_problems("rows", rows, "(1, None)"))
    yield from wrong
    if rows is not None and not wrong and any(type(bound) is float for bound in rows):
        yield Problem("rows", f"must have whole numbers, such as (1, None), not {rows!r}")


def _range_problems(name: str, given: object, example: str) -> Iterator[Problem]:
    if given is None:
        return
    bounds: list[object] = list(given) if isinstance(given, tuple | list) else []  # pyright: ignore[reportUnknownArgumentType]
    known: list[Any] = [bound for bound in bounds if bound is not None]
    if len(bounds) != 2 or not all(_is_number(bound) for bound in known):  # noqa: PLR2004  least and most
        yield Problem(name, f"must be (least, most) such as {example}, not {given!r}")
    elif not known:
        yield Problem(name, f"has no bound; write one, such as {example}, or leave it out")
    elif any(bound < 0 for bound in known):
        yield Problem(name, f"must not be negative: {given!r}")
    elif len(known) > 1 and known[0] > known[1]:
        yield Problem(name, f"{given!r} has its least value above its most; exchange them")


def _where_problems(given: object) -> Iterator[Problem]:
    if given is None:
        return
    if not isinstance(given, Mapping) or not given:
        yield Problem("where", f"must be a dict of SQL expressions by name, such as {{'paid': 'amount >= 0'}}, not {given!r}")
        return
    for name, expression in given.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str) or not name.strip() or len(name) > 100:  # noqa: PLR2004  it stands in messages
            yield Problem("where", f"has the name {name!r}; write a short str that messages can show")
        elif not isinstance(expression, str) or not expression.strip():
            yield Problem(f"where[{name!r}]", f"must be an SQL expression such as 'amount >= 0', not {expression!r}")
        elif ";" in expression or "--" in expression:
            yield Problem(f"where[{name!r}]", "must be one expression, without ';' and '--'")


def _key_problems(given: object) -> Iterator[Problem]:
    if given is None:
        return
    names: list[object] = [given] if isinstance(given, str) else list(given) if isinstance(given, tuple | list) else []  # pyright: ignore[reportUnknownArgumentType]
    if not names or not all(isinstance(name, str) and name for name in names):
        yield Problem("key", f"must be a column or several, such as 'order_id' or ['day', 'shop'], not {given!r}")
    elif len(set(names)) != len(names):
        yield Problem("key", f"names a column twice: {given!r}")


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


require_table = RequireTable
