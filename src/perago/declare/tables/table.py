"""`Table`: the columns of a table as a class, and what its annotations ask for."""

import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from perago.declare.problems import Problem
from perago.declare.tables import rules
from perago.declare.tables.column_types import ColumnType, Kind
from perago.declare.tables.rules import RULES, Rule


class Table:
    """Base of a table's contract: each annotation is a column.

    `class Order(Table): order_id: Annotated[int, Unique()]`. A column allows null only if its type is `… | None`.
    """


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column, or a field of nested columns, that a `Table` declares."""

    path: tuple[str, ...]
    """Its name; of a field, the names of the columns around it too."""
    type: ColumnType
    nullable: bool
    rules: tuple[Rule, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(slots=True)
class _Reader:
    columns: list[DeclaredColumn] = field(default_factory=list[DeclaredColumn])
    problems: list[Problem] = field(default_factory=list[Problem])
    nested: list[type] = field(default_factory=list[type])
    """The tables around the one that is read."""

    def read(self, table: type, path: tuple[str, ...]) -> None:
        if table in self.nested:
            self.problems.append(Problem(".".join(path), f"{table.__name__} contains itself; no table can hold that"))
            return
        self.nested.append(table)
        for name, annotation in self._hints(table).items():
            self._column((*path, name), annotation)
        self.nested.pop()

    def _hints(self, table: type) -> dict[str, Any]:
        try:
            found = get_type_hints(table, include_extras=True)
        except NameError as unresolved:
            what = f"annotation {unresolved.name!r} of {table.__name__} cannot be resolved; define or import it at module level"
            self.problems.append(Problem("", what))
            return {}
        except (TypeError, SyntaxError) as wrong:
            self.problems.append(Problem("", f"an annotation of {table.__name__} cannot be read: {wrong}"))
            return {}
        if not found:
            self.problems.append(Problem("", f"{table.__name__} declares no column; write 'name: type' lines in it"))
        return found

    def _column(self, path: tuple[str, ...], annotation: object) -> None:
        bare, given, nullable = _parts(annotation)
        name = ".".join(path)
        column_type = self._type(name, bare)
        if column_type is None:
            return
        found = tuple(rule for rule in given if isinstance(rule, RULES))
        for rule in given:
            self.problems += (problem.under(name) for problem in _rule_problems(rule, column_type.kind))
        self.columns.append(DeclaredColumn(path, column_type, nullable, found))
        if isinstance(bare, type) and issubclass(bare, Table):
            self.read(bare, path)

    def _type(self, name: str, annotation: object) -> ColumnType | None:
        try:
            return _column_type(annotation)
        except TypeError as wrong:
            self.problems.append(Problem(name, str(wrong)))
            return None


def read(table: type) -> tuple[list[DeclaredColumn], list[Problem]]:
    """The columns of a `Table` in their order, fields behind the column around them, and all problems."""
    reader = _Reader()
    reader.read(table, ())
    return reader.columns, reader.problems


_SCALARS: dict[object, Kind] = {
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.TEXT,
    bool: Kind.BOOLEAN,
    bytes: Kind.BYTES,
    Decimal: Kind.DECIMAL,
    date: Kind.DATE,
    datetime: Kind.DATETIME,
    Any: Kind.ANY,
    object: Kind.ANY,
}
_ACCEPTED = (
    "int, float, str, bool, bytes, Decimal, date, datetime, AwareDatetime, NaiveDatetime, list[...], dict[..., ...], a Table"
)


def _column_type(annotation: object) -> ColumnType:
    kind = _scalar(annotation)
    if kind is not None:
        return ColumnType(kind)
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return ColumnType(Kind.STRUCT)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list and len(arguments) == 1:
        return ColumnType(Kind.LIST, elements=(_element(arguments[0]),))
    if origin is dict and len(arguments) == 2:  # noqa: PLR2004  key and value
        return ColumnType(Kind.MAP, elements=(_element(arguments[0]), _element(arguments[1])))
    raise TypeError(f"no column has the type {_shown(annotation)}; write one of {_ACCEPTED}, and '| None' to allow null")


def _element(annotation: object) -> ColumnType:
    """Of a list or dict; null elements and rules of elements are not checked."""
    return _column_type(_parts(annotation)[0])


def _scalar(annotation: object) -> Kind | None:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and annotation is not None:
        if annotation is pydantic.AwareDatetime:
            return Kind.AWARE
        if annotation is pydantic.NaiveDatetime:
            return Kind.NAIVE
    try:
        return _SCALARS.get(annotation)
    except TypeError:  # an unhashable annotation
        return None


def _parts(annotation: object) -> tuple[object, list[object], bool]:
    """The type without `Annotated` and `| None`, what `Annotated` holds, and whether null is allowed."""
    given: list[object] = []
    nullable = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *found = get_args(annotation)
            given += found
            continue
        arguments = get_args(annotation)
        if get_origin(annotation) in {Union, types.UnionType} and type(None) in arguments:
            nullable = True
            rest = [one for one in arguments if one is not type(None)]
            if len(rest) == 1:
                annotation = rest[0]
                continue
        return annotation, given, nullable


def _rule_problems(rule: object, kind: Kind) -> Iterator[Problem]:
    if isinstance(rule, type) and rule in RULES:
        yield Problem("", f"has the class {rule.__name__}; write {rule.__name__}(...)")
    elif isinstance(rule, RULES):
        wrong = [problem.under(type(rule).__name__) for problem in rule.problems()]
        yield from wrong
        if not wrong and kind is not Kind.ANY and (unfit := rules.fits(rule, kind)) is not None:
            yield Problem("", unfit)
    elif type(rule).__module__.startswith("perago."):
        yield Problem("", f"must be Unique, In, Between, OneOf or Matches, not {rule!r}")


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
