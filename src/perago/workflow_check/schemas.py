"""Whether a value of one JSON Schema fits another, and the schema of a part of a value.

A finding is only made where the types say so. Bounds, patterns and formats of one side alone are left to the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from perago.workflow_check.findings import did_you_mean

Json = dict[str, Any]

ANYTHING: Json = {}
NULL: Json = {"type": "null"}
_NAMES = ("string", "integer", "number", "boolean", "null", "array", "object")


class NoSuchField(LookupError):
    """The text names the field and the ones that exist."""


def choices(schema: Json) -> Sequence[Json]:
    """The alternatives of a schema, one of which a value satisfies."""
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list):
        return [one for each in cast("list[Json]", several) for one in choices(each)]
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [{**schema, "type": kind} for kind in cast("list[str]", kinds)]
    return [schema]


def part(schema: Json, path: Sequence[str], where: str) -> Json:
    """The schema at a path of field names; `NoSuchField` if a closed object has no such field."""
    for name in path:
        schema = _field(schema, name, where)
        where = f"{where}.{name}"
    return schema


def _field(schema: Json, name: str, where: str) -> Json:
    found: list[Json] = []
    missing: list[str] = []
    for one in choices(schema):
        inside = _field_of_one(one, name)
        if inside is None:
            missing += cast("Mapping[str, Json]", one.get("properties", {}))
        else:
            found.append(inside)
    if not found:
        known = f"; it has {', '.join(missing)}" if missing else ""
        raise NoSuchField(f"{where} has no field {name}{did_you_mean(name, missing) or known}")
    # An alternative without the field, such as null, gives null.
    return found[0] if len(found) == 1 and len(choices(schema)) == 1 else {"anyOf": [*found, *([NULL] if missing else [])]}


def _field_of_one(schema: Json, name: str) -> Json | None:
    kind = schema.get("type")
    if kind == "array" and name.isdigit():
        return _schema_or_anything(schema.get("items"))
    if kind not in {None, "object"}:
        return None
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    if name in properties:
        inside = properties[name]
        return inside if name in schema.get("required", ()) or "default" in inside else {"anyOf": [inside, NULL]}
    others = schema.get("additionalProperties", True)
    return None if others is False else _schema_or_anything(others)


def _schema_or_anything(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else ANYTHING


def mismatch(given: Json, wanted: Json) -> str | None:
    """Why values of `given` do not all fit `wanted`, or None."""
    accepted = choices(wanted)
    for one in choices(given):
        reasons = [_mismatch_of_one(one, other) for other in accepted]
        if None not in reasons:
            same_kind = [reason for reason, other in zip(reasons, accepted, strict=True) if one.get("type") == other.get("type")]
            return (same_kind or [None])[0] or f"{described(one)} does not fit {described(wanted)}"
    return None


def described(schema: Json) -> str:
    """A schema's type in words, as in `integer or null`."""
    kinds: list[str] = []
    for one in choices(schema):
        values = values_of(one)
        kind = f"one of {', '.join(map(repr, values))}" if values is not None else str(one.get("type", "any value"))
        if kind not in kinds:
            kinds.append(kind)
    return " or ".join(kinds)


def values_of(schema: Json) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return cast("list[Any]", values) if isinstance(values, list) else None


def accepts_null(schema: Json) -> bool:
    return mismatch(NULL, schema) is None


def _mismatch_of_one(given: Json, wanted: Json) -> str | None:
    kind, target = given.get("type"), wanted.get("type")
    if kind not in _NAMES or target not in _NAMES:
        return None
    if kind != target and (kind, target) != ("integer", "number"):
        return f"{described(given)} does not fit {described(wanted)}"
    values, allowed = values_of(given), values_of(wanted)
    if values is not None and allowed is not None and any(value not in allowed for value in values):
        return f"{described(given)} does not fit {described(wanted)}"
    if given.get("format", wanted.get("format")) != wanted.get("format", given.get("format")):
        return f"a {given['format']} does not fit a {wanted['format']}"
    return next(_inner_mismatches(given, wanted), None)


def _inner_mismatches(given: Json, wanted: Json) -> Iterator[str]:
    if given["type"] == "object":
        yield from _object_mismatches(given, wanted)
    elif given["type"] == "array":
        inside = mismatch(_schema_or_anything(given.get("items")), _schema_or_anything(wanted.get("items")))
        yield from [] if inside is None else [f"in its items, {inside}"]


def _object_mismatches(given: Json, wanted: Json) -> Iterator[str]:
    ours = cast("Mapping[str, Json]", given.get("properties", {}))
    theirs = cast("Mapping[str, object]", wanted.get("properties", {}))
    if "properties" not in given:
        values, allowed = given.get("additionalProperties"), wanted.get("additionalProperties")
        if isinstance(values, dict) and isinstance(allowed, dict):
            inside = mismatch(cast("Json", values), cast("Json", allowed))
            yield from [] if inside is None else [f"in its values, {inside}"]
        return
    for name in wanted.get("required", ()):
        if name not in ours:
            yield f"its field {name} is missing"
    for name, schema in ours.items():
        other: object = theirs.get(name, wanted.get("additionalProperties", True))
        if other is False:
            yield f"its field {name} is unknown there"
        elif isinstance(other, dict) and (inside := mismatch(schema, cast("Json", other))) is not None:
            yield f"in its field {name}, {inside}"
