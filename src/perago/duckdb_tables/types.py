"""The types of DuckDB as those of declarations."""

from collections.abc import Sequence
from typing import Any

from perago.declare.tables.column_types import Column, ColumnType, Kind

_INTEGERS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "hugeint": 128}
_NUMBERS = {
    **{f"{sign}{name}": (Kind.INTEGER, bits) for sign in ("", "u") for name, bits in _INTEGERS.items()},
    "bignum": (Kind.INTEGER, 256),
    "float": (Kind.FLOAT, 32),
    "double": (Kind.FLOAT, 64),
}
_KINDS = {
    "varchar": Kind.TEXT,
    "enum": Kind.TEXT,
    "uuid": Kind.TEXT,
    "boolean": Kind.BOOLEAN,
    "blob": Kind.BYTES,
    "date": Kind.DATE,
    "timestamp": Kind.NAIVE,
    "timestamp_s": Kind.NAIVE,
    "timestamp_ms": Kind.NAIVE,
    "timestamp_ns": Kind.NAIVE,
    "timestamp with time zone": Kind.AWARE,
    "json": Kind.NULL,
    '"null"': Kind.NULL,
    "null": Kind.NULL,
}


def columns(names: Sequence[str], types: Sequence[Any]) -> tuple[Column, ...]:
    """Of a relation."""
    return tuple(Column(name, column_type(found)) for name, found in zip(names, types, strict=True))


def column_type(found: Any) -> ColumnType:
    """Of a `DuckDBPyType`. A JSON column without any value has the type JSON."""
    native, name = str(found), str(found.id)
    match name:
        case _ if native == "JSON":
            return ColumnType(Kind.NULL, native=native)
        case _ if name in _NUMBERS:
            kind, bits = _NUMBERS[name]
            return ColumnType(kind, bits, native=native)
        case "decimal":
            precision, scale = (int(value) for _, value in found.children)
            return ColumnType(Kind.DECIMAL, digits=(precision - scale, scale), native=native)
        case "list" | "array" | "map":
            inside = found.children if name == "map" else found.children[:1]
            kind = Kind.MAP if name == "map" else Kind.LIST
            return ColumnType(kind, elements=tuple(column_type(inner) for _, inner in inside), native=native)
        case "struct":
            fields = tuple(Column(inner_name, column_type(inner)) for inner_name, inner in found.children)
            return ColumnType(Kind.STRUCT, fields=fields, native=native)
        case _:
            return ColumnType(_KINDS.get(name, Kind.OTHER), native=native)
