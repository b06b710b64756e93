"""A JSON value under a closed JSON Schema, where there is no model to validate it: its problems, and its defaults filled in.

Knows the keywords that Pydantic writes for models. A keyword that it does not know restricts nothing here.
"""

import datetime as dt
import ipaddress
import json
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

Json = dict[str, Any]

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or _is_whole(value)),
}
_NUMBERS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
    "multipleOf": (lambda value, bound: math.isclose(value / bound, round(value / bound), abs_tol=1e-9), "a multiple of"),
}
_LENGTHS: Mapping[str, tuple[type, Callable[[int, int], bool], str]] = {
    "minLength": (str, lambda size, bound: size >= bound, "at least {} characters"),
    "maxLength": (str, lambda size, bound: size <= bound, "at most {} characters"),
    "minItems": (list, lambda size, bound: size >= bound, "at least {} items"),
    "maxItems": (list, lambda size, bound: size <= bound, "at most {} items"),
    "minProperties": (dict, lambda size, bound: size >= bound, "at least {} fields"),
    "maxProperties": (dict, lambda size, bound: size <= bound, "at most {} fields"),
}
_FORMATS: Mapping[str, Any] = {
    "date-time": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "duration": dt.timedelta,
    "uuid": uuid.UUID,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}


def with_defaults(schema: Json, value: object) -> object:
    """The value with the defaults of all fields that it leaves out, at every depth."""
    if isinstance(value, list):
        listed = cast("list[object]", value)
        items: object = schema.get("items")
        return [with_defaults(cast("Json", items), one) for one in listed] if isinstance(items, dict) else listed
    if not isinstance(value, dict):
        return value
    choices = _choices(schema)
    if choices:
        filled = (with_defaults(one, cast("object", value)) for one in choices)
        return next((made for made in filled if not any(problems(schema, made, ""))), cast("object", value))
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    given = cast("Json", value)
    defaults = {name: one["default"] for name, one in properties.items() if name not in given and "default" in one}
    return {**{name: with_defaults(properties.get(name, {}), one) for name, one in given.items()}, **defaults}


def problems(schema: Json, value: object, where: str) -> Iterator[str]:
    """What is wrong with the value, one text each, which begins with the path of the field. The value itself is not repeated."""
    choices = _choices(schema)
    if choices:
        found = sorted(([*problems(one, value, where)] for one in choices), key=len)
        yield from found[0]
    for one in cast("list[Json]", schema.get("allOf", [])):
        yield from problems(one, value, where)
    wrong = [*_type_problems(schema, value)]
    yield from (f"{where}: {what}" for what in wrong)
    if wrong:
        return
    yield from (f"{where}: {what}" for what in (*_bounds(schema, value), *_text(schema, value)))
    if isinstance(value, dict):
        yield from _object(schema, cast("Json", value), where)
    elif isinstance(value, list):
        yield from _array(schema, cast("list[object]", value), where)


def described(schema: Json) -> str:
    """The type of a value in a few words, for people who have to write one."""
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(one, ensure_ascii=False) for one in schema.get("enum", [schema.get("const")]))
    choices = _choices(schema)
    if choices:
        return " or ".join(dict.fromkeys(described(one) for one in choices))
    types = schema.get("type", "any value")
    return " or ".join(cast("list[str]", types)) if isinstance(types, list) else str(types)


def _choices(schema: Json) -> list[Json]:
    return cast("list[Json]", schema.get("anyOf") or schema.get("oneOf") or [])


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def _type_problems(schema: Json, value: object) -> Iterator[str]:
    types = schema.get("type")
    names = cast("list[str]", types if isinstance(types, list) else [types] if types else [])
    if names and not any(_TYPES[name](value) for name in names if name in _TYPES):
        yield f"must be {' or '.join(names)}"
    elif "const" in schema and not _same(value, schema["const"]):
        yield f"must be {json.dumps(schema['const'], ensure_ascii=False)}"
    elif "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"must be one of {', '.join(json.dumps(one, ensure_ascii=False) for one in schema['enum'])}"


def _same(value: object, other: object) -> bool:
    """As in JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _bounds(schema: Json, value: object) -> Iterator[str]:
    if _TYPES["number"](value):
        for key, (holds, text) in _NUMBERS.items():
            if key in schema and not holds(value, schema[key]):
                yield f"must be {text} {schema[key]}"
    for key, (kind, fits, text) in _LENGTHS.items():
        if key in schema and isinstance(value, kind) and not fits(len(cast("str", value)), schema[key]):
            yield f"must have {text.format(schema[key])}"


def _text(schema: Json, value: object) -> Iterator[str]:
    if not isinstance(value, str):
        return
    if "pattern" in schema and not _matches(schema["pattern"], value):
        yield f"must match the pattern {schema['pattern']}"
    kind = _FORMATS.get(str(schema.get("format")))
    if kind is not None:
        try:
            TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
        except ValidationError:
            yield f"must have the format {schema['format']}"


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        # Pydantic's own engine knows some patterns that Python's does not; the next step checks its input anyway.
        return True


def _object(schema: Json, value: Json, where: str) -> Iterator[str]:
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    others: object = schema.get("additionalProperties", True)
    patterns = cast("Mapping[str, Json]", schema.get("patternProperties", {}))
    yield from (f"{where}.{name}: missing" for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        inside = properties.get(name)
        by_pattern = [found for pattern, found in patterns.items() if _matches(pattern, name)]
        for found in ([inside] if inside is not None else []) + by_pattern:
            yield from problems(found, one, f"{where}.{name}")
        if inside is not None or by_pattern:
            continue
        if others is False:
            yield f"{where}.{name}: unknown field"
        elif isinstance(others, dict):
            yield from problems(cast("Json", others), one, f"{where}.{name}")
    names = schema.get("propertyNames")
    if isinstance(names, dict):
        for name in value:
            yield from problems(cast("Json", names), name, f"{where}, the name {name!r}")


def _array(schema: Json, value: list[object], where: str) -> Iterator[str]:
    leading = cast("list[Json]", schema.get("prefixItems", []))
    rest: object = schema.get("items")
    for index, one in enumerate(value):
        expected = leading[index] if index < len(leading) else rest
        if isinstance(expected, dict):
            yield from problems(cast("Json", expected), one, f"{where}[{index}]")
        elif expected is False:
            yield f"{where}[{index}]: unknown item"
    if schema.get("uniqueItems"):
        texts = [json.dumps(one, sort_keys=True) for one in value]
        if len({*texts}) < len(texts):
            yield f"{where}: must not have the same item twice"
