"""The types of columns, independent of Python and of every engine: what a declaration asks for, and what an engine finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The value is the name in messages."""

    INTEGER = "int"
    FLOAT = "float"
    TEXT = "str"
    BOOLEAN = "bool"
    BYTES = "bytes"
    DECIMAL = "Decimal"
    DATE = "date"
    NAIVE = "datetime without a time zone"
    AWARE = "datetime with a time zone"
    DATETIME = "datetime"
    """Of a declaration only: with or without a time zone."""
    LIST = "list"
    MAP = "dict"
    STRUCT = "nested columns"
    NULL = "null"
    """Found only: all values are null, so the engine knows no type."""
    ANY = "any type"
    """Of a declaration only."""
    OTHER = "another type"
    """Found only: a type that no declaration asks for, such as an interval."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    kind: Kind
    bits: int = 0
    """Of an integer or float that was found; 0 where it is not known."""
    digits: tuple[int, int] = (0, 0)
    """Of a decimal that was found: before and after the point."""
    elements: tuple["ColumnType", ...] = ()
    """Of a list, its element; of a map, key and value."""
    fields: tuple["Column", ...] = ()
    native: str = ""
    """The name that the engine has for the type that it found."""

    def __str__(self) -> str:
        return self.native or _written(self)


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of nested columns, that was found."""

    name: str
    type: ColumnType


def accepts(declared: ColumnType, found: ColumnType) -> bool:
    """Whether a column of the type `found` satisfies the declaration. Fields of nested columns are checked one by one."""
    if declared.kind is Kind.ANY or found.kind is Kind.NULL:
        return True
    if declared.kind is Kind.DATETIME:
        return found.kind in {Kind.NAIVE, Kind.AWARE}
    if declared.kind is not found.kind:
        return False
    return all(accepts(*pair) for pair in zip(declared.elements, found.elements, strict=False))


def breaks_readers(before: ColumnType, after: ColumnType) -> bool:
    """Whether a reader of the type `before` may fail on, or lose values of, the type `after`."""
    if Kind.NULL in {before.kind, after.kind}:
        return False
    if before.kind is not after.kind:
        return True
    if after.bits < before.bits or any(new < old for old, new in zip(before.digits, after.digits, strict=True)):
        return True
    if any(breaks_readers(*pair) for pair in zip(before.elements, after.elements, strict=False)):
        return True
    return bool(lost_columns(before.fields, after.fields))


def lost_columns(before: Sequence[Column], after: Sequence[Column]) -> list[tuple[Column, Column | None]]:
    """Columns that readers of `before` do not find in `after`, or find with a narrower or another type."""
    found = {column.name: column for column in after}
    pairs = [(column, found.get(column.name)) for column in before]
    return [(old, new) for old, new in pairs if new is None or breaks_readers(old.type, new.type)]


def _written(column_type: ColumnType) -> str:
    inner = ", ".join(map(str, column_type.elements))
    return f"{column_type.kind.value}[{inner}]" if inner else column_type.kind.value
