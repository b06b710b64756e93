"""The types of Spark as those of declarations, from the JSON form of a schema, which classic Spark and Connect share."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perago.declare.tables.column_types import Column, ColumnType, Kind

_SIMPLE = {
    "byte": (Kind.INTEGER, 8),
    "short": (Kind.INTEGER, 16),
    "integer": (Kind.INTEGER, 32),
    "long": (Kind.INTEGER, 64),
    "float": (Kind.FLOAT, 32),
    "double": (Kind.FLOAT, 64),
    "string": (Kind.TEXT, 0),
    "boolean": (Kind.BOOLEAN, 0),
    "binary": (Kind.BYTES, 0),
    "date": (Kind.DATE, 0),
    "timestamp": (Kind.AWARE, 0),
    "timestamp_ntz": (Kind.NAIVE, 0),
    "void": (Kind.NULL, 0),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(string|varchar|char)\b")


def columns(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """Of a `StructType` as JSON."""
    return _fields(schema["fields"])


def _fields(found: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(str(field["name"]), _type(field["type"])) for field in found)


def _type(found: Any) -> ColumnType:
    if isinstance(found, str):
        return _simple(found)
    match found.get("type"):
        case "array":
            inner = _type(found["elementType"])
            return ColumnType(Kind.LIST, elements=(inner,), native=f"array<{inner}>")
        case "map":
            key, value = _type(found["keyType"]), _type(found["valueType"])
            return ColumnType(Kind.MAP, elements=(key, value), native=f"map<{key},{value}>")
        case "struct":
            inside = _fields(found["fields"])
            shown = ",".join(f"{column.name}:{column.type}" for column in inside)
            return ColumnType(Kind.STRUCT, fields=inside, native=f"struct<{shown}>")
        case _:
            return ColumnType(Kind.OTHER, native=str(found.get("type")))


def _simple(name: str) -> ColumnType:
    if name in _SIMPLE:
        kind, bits = _SIMPLE[name]
        return ColumnType(kind, bits, native=name)
    if decimal := _DECIMAL.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        return ColumnType(Kind.DECIMAL, digits=(precision - scale, scale), native=name)
    return ColumnType(Kind.TEXT if _TEXT.match(name) else Kind.OTHER, native=name)
