"""The keywords of JSON Schema that a contract may have, and what is wrong with one schema apart from those inside it."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from perago.declare.problems import Problem, unknown

Json = dict[str, Any]

_COMMENTS = ("title", "description", "default", "examples", "deprecated", "$schema", "$id", "$comment", "$defs", "definitions")
"""They restrict nothing; `default` is read with the field."""
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern"),
    "integer": _NUMBER,
    "number": _NUMBER,
    "boolean": (),
    "null": (),
}
BOUNDS = {
    "minItems": "min_length",
    "maxItems": "max_length",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}
"""Pydantic's names."""
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength"})
_TYPES = f"one of {', '.join(KEYWORDS)}"


def json_type(value: object) -> str:
    """The name of a JSON value's type in a schema."""
    return _TYPE_NAMES.get(type(value).__name__, "null")


_TYPE_NAMES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "list": "array",
    "dict": "object",
}


def type_names(schema: Json) -> list[str]:
    """The value of `type` as a list."""
    given: object = schema["type"]
    return cast("list[str]", given) if isinstance(given, list) else [str(given)]


def shape_problems(schema: object, where: str) -> Iterator[Problem]:
    """What is wrong with the keywords of this schema and their own values; schemas inside it are not looked at."""
    if not isinstance(schema, dict):
        yield Problem(where, f"must be a schema, which is an object, not {schema!r}")
        return
    found = cast("Json", schema)
    if "anyOf" in found:
        yield from _choice_problems(found, where)
    elif "enum" in found or "const" in found:
        yield from _fixed_problems(found, where)
    else:
        yield from _type_problems(found, where)


def _choice_problems(schema: Json, where: str) -> Iterator[Problem]:
    yield from _unknown_keywords(schema, ("anyOf",), where)
    if not isinstance(schema["anyOf"], list) or not schema["anyOf"]:
        yield Problem(where, "anyOf must be a list of schemas")


def _fixed_problems(schema: Json, where: str) -> Iterator[Problem]:
    yield from _unknown_keywords(schema, ("enum", "const", "type"), where)
    if "enum" in schema and (not isinstance(schema["enum"], list) or not schema["enum"]):
        yield Problem(where, "enum must be a list of values")
    if "enum" in schema and "const" in schema:
        yield Problem(where, "has enum and const; keep one of them")
    if "type" in schema:
        yield from _type_name_problems(schema["type"], where)


def _type_problems(schema: Json, where: str) -> Iterator[Problem]:
    if "type" not in schema:
        unsupported = [key for key in schema if key not in _COMMENTS and not any(key in names for names in KEYWORDS.values())]
        yield from (_unsupported(key, where) for key in unsupported)
        if not unsupported:
            yield Problem(where, f'has no "type", so it accepts anything; write {_TYPES}')
        return
    wrong = list(_type_name_problems(schema["type"], where))
    yield from wrong
    if wrong:
        return
    types = type_names(schema)
    yield from _unknown_keywords(schema, ("type", *(key for name in types for key in KEYWORDS[name])), where)
    if "object" in types:
        yield from _object_problems(schema, where)
    if "array" in types and "items" not in schema:
        yield Problem(where, 'has no "items", so its items may be anything; write their schema')
    for key in BOUNDS:
        if key in schema:
            yield from _bound_problems(key, schema[key], where)


def _type_name_problems(given: object, where: str) -> Iterator[Problem]:
    names = cast("list[object]", given) if isinstance(given, list) else [given]
    for name in names or [given]:
        if not isinstance(name, str) or name not in KEYWORDS:
            yield Problem(where, f"type must be {_TYPES}, not {name!r}")


def _object_problems(schema: Json, where: str) -> Iterator[Problem]:
    others = schema.get("additionalProperties", True)
    if "properties" not in schema:
        if "required" in schema:
            yield Problem(where, 'has "required" without "properties"; write the schemas of these fields')
        if not isinstance(others, dict) or not others:
            what = 'write "properties" and "additionalProperties": false, or the schema of its values as "additionalProperties"'
            yield Problem(where, f"may have any fields; {what}")
        return
    properties, required = schema["properties"], schema.get("required", [])
    if others is not False:
        yield Problem(where, 'accepts unknown fields; write "additionalProperties": false')
    if not isinstance(properties, dict):
        yield Problem(where, "properties must be an object with one schema per field")
        return
    if not isinstance(required, list):
        yield Problem(where, "required must be a list of field names")
        return
    for name in cast("list[object]", required):
        if name not in properties:
            yield Problem(where, f'"required" names {name!r}, which is not in "properties"')


def _bound_problems(key: str, value: object, where: str) -> Iterator[Problem]:
    if key == "pattern":
        if not isinstance(value, str):
            yield Problem(where, f"pattern must be text, not {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int if key in _COUNTS else int | float):
        yield Problem(where, f"{key} must be a number, not {value!r}")
    elif (key in _COUNTS and value < 0) or (key == "multipleOf" and value <= 0):
        yield Problem(where, f"{key} must be {'at least' if key in _COUNTS else 'above'} 0, not {value!r}")


def _unknown_keywords(schema: Json, known: tuple[str, ...], where: str) -> Iterator[Problem]:
    for key in schema:
        if key in known or key in _COMMENTS:
            continue
        if any(key in names for names in KEYWORDS.values()):
            yield Problem(where, f"{key} does not apply here; accepted are {', '.join(known)}")
        else:
            yield _unsupported(key, where)


def _unsupported(key: str, where: str) -> Problem:
    every = ("type", "enum", "const", "anyOf", "$ref", *dict.fromkeys(key for names in KEYWORDS.values() for key in names))
    hint = "write anyOf" if key == "oneOf" else "write a pattern" if key == "format" else unknown(key, every).what
    return Problem(where, f"the keyword {key!r} is not supported in a contract: {hint}")
