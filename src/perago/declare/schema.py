"""Closed JSON Schemas of Pydantic models, without references or titles, and the check of a value against one.

Every model's object has `additionalProperties: false`, whatever its configuration says; a map such as `dict[str, int]` describes
its values. Custom validators and the digits of a decimal cannot be expressed in a schema; the model itself checks them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import core_schema

from perago.declare import json_support

Json = dict[str, Any]

_DECIMAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,17})?$"
"""As Python writes and reads them; an exponent of 18 digits is beyond what it can hold."""
_ONE = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "contentSchema"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DROPPED = frozenset({"title", "discriminator", "$defs"})
"""`discriminator` is OpenAPI's, and its mapping is made of references."""

MOST_SCHEMAS = 20_000


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, corrected where its schema differs from what the model reads or writes."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Not needed: unsupported types were refused before, and a default without a JSON form is left out."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Json:
        """Decimals are written as text, also with an exponent."""
        made = super().decimal_schema(schema)
        if self.mode == "serialization":
            return {**made, "pattern": _DECIMAL}
        if "max_digits" in schema or "decimal_places" in schema:
            return made
        return {**made, "anyOf": [{**one, "pattern": _DECIMAL} if one.get("type") == "string" else one for one in made["anyOf"]]}

    def ser_schema(self, schema: Any) -> Json | None:
        """A serializer without a return annotation may write anything."""
        is_function = schema["type"] in {"function-plain", "function-wrap"}
        if is_function and "return_schema" not in schema and json_support.is_authors_own(schema["function"]):
            return {}
        return super().ser_schema(schema)


class SchemaTooLarge(ValueError):
    """The schema has more than `MOST_SCHEMAS` parts after its references are inlined."""


def of(model: type[BaseModel], mode: JsonSchemaMode) -> Json:
    """The closed schema of what `model` reads (`validation`) or writes (`serialization`)."""
    made = model.model_json_schema(by_alias=True, schema_generator=_Generator, mode=mode)
    return _SchemaCloser(made.get("$defs", {})).closed(made)


def write_only(schema: Json, where: str) -> Iterator[str]:
    """Fields whose value is never written, such as `SecretStr`, which writes asterisks."""
    if schema.get("writeOnly"):
        yield where
    for key, value in schema.items():
        for step, one in _inside(key, value):
            yield from write_only(one, where + step)


def _inside(key: str, value: Any) -> list[tuple[str, Json]]:
    """The schemas under a keyword, each with the suffix that it adds to the field's path."""
    if key in _NAMED:
        return [(f".{name}", one) for name, one in value.items()]
    if key in _MANY:
        return [("[]" if key == "prefixItems" else "", one) for one in value]
    return [("[]", value)] if key in _ONE and isinstance(value, dict) else []


def closed_object(properties: Mapping[str, Json]) -> Json:
    """An object with exactly these properties, all required."""
    return {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}


class _SchemaCloser:
    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._made = 0

    def closed(self, schema: Json) -> Json:
        self._made += 1
        if self._made > MOST_SCHEMAS:
            raise SchemaTooLarge
        if "$ref" in schema:
            target = self._definitions[str(schema["$ref"]).rpartition("/")[2]]
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self.closed({**target, **beside})
        kept = {key: self._part(key, value) for key, value in schema.items() if key not in _DROPPED and _is_json(value)}
        if "properties" in kept or "patternProperties" in kept:
            kept["additionalProperties"] = False
        return kept

    def _part(self, key: str, value: Any) -> Any:
        """Only where JSON Schema expects a schema: a property may be named `title`, a default may contain `$ref`."""
        if key in _ONE and isinstance(value, dict):
            return self.closed(cast("Json", value))
        if key in _MANY:
            return [self.closed(one) for one in value]
        if key in _NAMED:
            return {name: self.closed(one) for name, one in value.items()}
        return value


def _is_json(value: object) -> bool:
    """Bounds and defaults may be infinite in Python, but not in JSON."""
    return not isinstance(value, float) or math.isfinite(value)


def violations(schema: Json, value: object, where: str) -> Iterator[str]:
    """Unknown and missing fields of a JSON value under a closed schema. Types and bounds are checked by the model."""
    choices = cast("list[Json]", schema.get("anyOf") or schema.get("oneOf") or [])
    if choices:
        yield from _best(choices, value, where)
    elif isinstance(value, dict):
        yield from _object_violations(schema, cast("Json", value), where)
    elif isinstance(value, list):
        yield from _array_violations(schema, cast("list[object]", value), where)


def _best(choices: list[Json], value: object, where: str) -> list[str]:
    """The violations of the best matching choice, among those of the value's type."""
    candidates = [one for one in choices if _may_hold(one, value)]
    found = sorted((list(violations(one, value, where)) for one in candidates), key=len)
    return found[0] if found else []


def _may_hold(schema: Json, value: object) -> bool:
    kind = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else None
    return kind is None or schema.get("type", kind) == kind


def _object_violations(schema: Json, value: Json, where: str) -> Iterator[str]:
    properties = cast("dict[str, Json]", schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    yield from (f"{where}.{name}: missing" for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        if name in properties:
            yield from violations(properties[name], one, f"{where}.{name}")
        elif isinstance(others, dict):
            yield from violations(cast("Json", others), one, f"{where}.{name}")
        elif others is False and "patternProperties" not in schema:
            yield f"{where}.{name}: unknown field"


def _array_violations(schema: Json, value: list[object], where: str) -> Iterator[str]:
    leading = cast("list[Json]", schema.get("prefixItems", []))
    rest = schema.get("items")
    for index, one in enumerate(value):
        expected = leading[index] if index < len(leading) else rest
        if isinstance(expected, dict):
            yield from violations(cast("Json", expected), one, f"{where}[{index}]")
