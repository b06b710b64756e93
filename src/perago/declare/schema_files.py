"""Reads the JSON Schema of a contract from a file, or takes one that is written in place, and requires that it is JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from perago.declare import source_record
from perago.declare.problems import Problem

_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


class _Repeated(ValueError):
    """A field that is written twice."""


def document(given: object, directory: Path, name: str) -> tuple[object, list[Problem]]:
    """The schema, or why it cannot be read. A file is relative to `directory`; None is a schema without fields."""
    if given is None:
        return _NO_FIELDS, []
    if isinstance(given, Mapping):
        found = cast("Mapping[str, object]", given)
        return found, [*_not_json(found, name)]
    if not isinstance(given, str | Path):
        return None, [Problem(name, f"must be the file of a JSON Schema or the schema itself, not {given!r}")]
    return _read(directory / given, name, str(given))


def _read(file: Path, name: str, shown: str) -> tuple[object, list[Problem]]:
    source_record.record(file)
    if not file.is_file():
        what = "is not a file" if file.exists() else "does not exist"
        return None, [Problem(name, f"the schema file {shown!r} {what}; it is looked up in {file.parent}")]
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repetition), []
    except OSError as error:
        return None, [Problem(name, f"the schema file {shown!r} cannot be read: {error.strerror}")]
    except UnicodeDecodeError:
        return None, [Problem(name, f"the schema file {shown!r} is not UTF-8 text")]
    except RecursionError:
        return None, [Problem(name, f"the schema file {shown!r} is nested too deeply")]
    except ValueError as wrong:
        return None, [Problem(name, f"the schema file {shown!r} is not JSON: {wrong}")]


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} has no JSON form")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise _Repeated(f"{repeated!r} is written twice in one object")
    return found


def _not_json(value: object, where: str) -> Iterator[Problem]:
    """TOML and Python have values that JSON has not: dates, infinite numbers."""
    if isinstance(value, Mapping):
        for key, one in cast("Mapping[object, object]", value).items():
            if isinstance(key, str):
                yield from _not_json(one, f"{where}.{key}")
            else:
                yield Problem(where, f"the key {key!r} is not text")
    elif isinstance(value, list):
        for index, one in enumerate(cast("list[object]", value)):
            yield from _not_json(one, f"{where}[{index}]")
    elif (isinstance(value, float) and not math.isfinite(value)) or not isinstance(value, str | int | float | None):
        yield Problem(where, f"{value} has no JSON form; write text or a finite number")
