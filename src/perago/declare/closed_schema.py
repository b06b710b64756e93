"""Whether a JSON value keeps to a closed schema's objects. In: a schema of `schema.of`, a value. Out: unknown and missing fields.

Numbers, texts and their bounds are the model's own business and not looked at again.
"""

from collections.abc import Iterator
from typing import Any, cast

Json = dict[str, Any]


def misfits(schema: Json, value: object, where: str) -> Iterator[str]:
    choices = cast("list[Json]", schema.get("anyOf") or schema.get("oneOf") or [])
    if choices:
        yield from _best(choices, value, where)
    elif isinstance(value, dict):
        yield from _object_misfits(schema, cast("Json", value), where)
    elif isinstance(value, list):
        yield from _array_misfits(schema, cast("list[object]", value), where)


def _best(choices: list[Json], value: object, where: str) -> list[str]:
    """The choice that complains least, among those of the value's own kind."""
    kin = [one for one in choices if _may_hold(one, value)]
    complaints = sorted((list(misfits(one, value, where)) for one in kin), key=len)
    return complaints[0] if complaints else []


def _may_hold(schema: Json, value: object) -> bool:
    kind = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else None
    return kind is None or schema.get("type", kind) == kind


def _object_misfits(schema: Json, value: Json, where: str) -> Iterator[str]:
    properties = cast("dict[str, Json]", schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    yield from (f"{where}.{name}: missing" for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        if name in properties:
            yield from misfits(properties[name], one, f"{where}.{name}")
        elif isinstance(others, dict):
            yield from misfits(cast("Json", others), one, f"{where}.{name}")
        elif others is False and "patternProperties" not in schema:
            yield f"{where}.{name}: unknown field"


def _array_misfits(schema: Json, value: list[object], where: str) -> Iterator[str]:
    leading = cast("list[Json]", schema.get("prefixItems", []))
    rest = schema.get("items")
    for index, one in enumerate(value):
        expected = leading[index] if index < len(leading) else rest
        if isinstance(expected, dict):
            yield from misfits(cast("Json", expected), one, f"{where}[{index}]")
