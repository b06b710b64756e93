"""Rows and columns of a Parquet file, read from its footer alone: no package is needed, and the file's size does not matter.

The footer is a `FileMetaData` in Thrift's compact protocol. Only its first three fields are read: version, schema, rows.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

_MAGIC = b"PAR1"
_TAIL = struct.Struct("<I4s")
_LARGEST_FOOTER = 64 << 20
_PHYSICAL = ("boolean", "int32", "int64", "int96", "float", "double", "binary", "fixed")
_CONVERTED = {
    0: "string",
    4: "string",
    6: "date",
    7: "time",
    8: "time",
    9: "timestamp",
    10: "timestamp",
    11: "uint8",
    12: "uint16",
    13: "uint32",
    14: "uint64",
    15: "int8",
    16: "int16",
    19: "json",
    20: "bson",
}
_DECIMAL, _LIST, _MAP = 5, 3, 1
_LOGICAL_TIMESTAMP, _LOGICAL_UUID = 8, 14
_NAME, _TYPE, _REPETITION, _CHILDREN, _CONVERTED_TYPE, _SCALE, _PRECISION, _LOGICAL = 4, 1, 3, 5, 6, 7, 8, 10
_REPEATED = 2
Struct = Mapping[int, Any]


class NotParquet(Exception):
    """The file has no footer that can be read."""


def read(path: Path) -> tuple[int, dict[str, str]]:
    """The number of rows, and the type of each column by its name."""
    try:
        with path.open("rb") as file:
            fields = _Reader(_footer(file)).fields(last=3)
        schema: list[Struct] = fields[2]
        elements = iter(schema)
        columns = [_column(elements) for _ in range(next(elements).get(_CHILDREN, 0))]
        return int(fields[3]), {column.name: column.type for column in columns}
    except (OSError, KeyError, IndexError, ValueError, TypeError, StopIteration, RuntimeError, RecursionError) as error:
        raise NotParquet(str(path)) from error


def _footer(file: BinaryIO) -> bytes:
    size = file.seek(0, io.SEEK_END)
    if size < len(_MAGIC) + _TAIL.size:
        raise ValueError("too short")
    file.seek(size - _TAIL.size)
    length, magic = _TAIL.unpack(file.read(_TAIL.size))
    if magic != _MAGIC or length > min(size - _TAIL.size, _LARGEST_FOOTER):
        raise ValueError("no footer")
    file.seek(size - _TAIL.size - length)
    return file.read(length)


class _Column(NamedTuple):
    name: str
    type: str
    below: "tuple[_Column, ...]" = ()


def _column(elements: Iterator[Struct]) -> _Column:
    """The next element with those below it."""
    element = next(elements)
    name = bytes(element[_NAME]).decode(errors="replace")
    below = tuple(_column(elements) for _ in range(element.get(_CHILDREN, 0)))
    shown = _nested(element, below) if below else _simple(element)
    return _Column(name, f"list<{shown}>" if element.get(_REPETITION) == _REPEATED and not below else shown, below)


def _nested(element: Struct, below: tuple[_Column, ...]) -> str:
    """A list has one repeated group with its element, a map one with key and value."""
    kind, inner = element.get(_CONVERTED_TYPE), below[0].below
    if kind == _LIST:
        return f"list<{inner[0].type if len(inner) == 1 else below[0].type}>"
    if kind == _MAP:
        return f"map<{', '.join(column.type for column in inner)}>"
    return f"struct<{', '.join(f'{column.name}: {column.type}' for column in below)}>"


def _simple(element: Struct) -> str:
    logical: Struct = element.get(_LOGICAL) or {}
    if element.get(_CONVERTED_TYPE) == _DECIMAL:
        return f"decimal({element.get(_PRECISION, 0)}, {element.get(_SCALE, 0)})"
    if _LOGICAL_TIMESTAMP in logical:
        return "timestamp" if logical[_LOGICAL_TIMESTAMP].get(1) else "timestamp without zone"
    if _LOGICAL_UUID in logical:
        return "uuid"
    converted: int = element.get(_CONVERTED_TYPE, -1)
    physical: int = element[_TYPE]
    return _CONVERTED[converted] if converted in _CONVERTED else _PHYSICAL[physical]


class _Reader:
    """Values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self, last: int | None = None) -> dict[int, Any]:
        """Of a struct, up to the field with the number `last`."""
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else _signed(self._varint())
            kind = head & 0x0F
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind)
            if number == last:
                break
        return found

    def _value(self, kind: int) -> Any:  # noqa: PLR0911  one case per type
        match kind:
            case 1 | 2:
                return self._byte() == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return _signed(self._varint())
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list()
            case 12:
                return self.fields()
            case _:
                raise ValueError(f"type {kind} does not occur in the first fields of a footer")

    def _list(self) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 != 15 else self._varint()  # noqa: PLR2004  the size follows
        if size > len(self._data):
            raise ValueError("a list that is longer than the footer")
        return [self._value(head & 0x0F) for _ in range(size)]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004  the last byte
                return value
            shift += 7

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("cut off")
        self._at += size
        return found


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
