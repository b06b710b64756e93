"""Make a Pydantic model from a JSON Schema, so that a contract that is written as one is the same as a contract in Python.

The schema is limited to what a model can express: closed objects whose fields are required or have a default, maps, lists, text,
numbers, booleans, null, fixed values and `anyOf`. A keyword outside of that is a problem, never ignored.
"""

import itertools
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Union, cast

from pydantic import BaseModel, BeforeValidator, Field, Strict, TypeAdapter, ValidationError, create_model
from pydantic_core import SchemaError

from perago.declare import schema_references
from perago.declare.problems import Problem
from perago.declare.schema import MOST_SCHEMAS
from perago.declare.schema_keywords import (
    BOUNDS,
    KEYWORDS,
    Json,
    json_type,
    shape_problems,
    type_names,
)


class SchemaModel(BaseModel):
    """Base of every model that is made here. Two of them are the same type if their JSON is, whatever they are called."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The path of the field, and the references that are being expanded."""

    path: str
    open_references: tuple[str, ...] = ()

    def field(self, name: str) -> "_Place":
        return replace(self, path=f"{self.path}.{name}")

    def inside(self) -> "_Place":
        return replace(self, path=f"{self.path}[]")


def make(document: object, name: str) -> tuple[type[SchemaModel] | None, list[Problem]]:
    """The model of a schema, or its problems; `name` is `params` or `result`, where their paths begin."""
    found = _ModelMaker(document)
    model = found.root(name)
    return (None, found.problems) if found.problems else (model, [])


@dataclass(slots=True)
class _ModelMaker:
    document: object
    problems: list[Problem] = field(default_factory=list[Problem])

    def root(self, name: str) -> type[SchemaModel] | None:
        place = _Place(name)
        # Before any model is made, because each takes a moment.
        if sum(1 for _ in itertools.islice(schema_references.parts(self.document), MOST_SCHEMAS + 1)) > MOST_SCHEMAS:
            self._problem(place, f"has more than {MOST_SCHEMAS:,} parts after all references are inlined; write a flatter schema")
            return None
        schema = self._resolved(self.document, place)
        if schema is None:
            return None
        if schema[0].get("type") != "object" or "properties" not in schema[0]:
            self._problem(place, 'must be an object with named fields; write "type": "object" and "properties"')
            return None
        return cast("type[SchemaModel]", self._object(*schema))

    def _annotation(self, given: object, at: _Place) -> Any:
        """The type of a value; Any where something is wrong, which is recorded."""
        resolved = self._resolved(given, at)
        if resolved is None:
            return Any
        schema, at = resolved
        if "anyOf" in schema:
            return _union([self._annotation(one, at) for one in schema["anyOf"]])
        if "enum" in schema or "const" in schema:
            return self._fixed(schema, at)
        return _union([self._of_type(name, schema, at) for name in type_names(schema)])

    def _of_type(self, name: str, schema: Json, at: _Place) -> Any:
        if name == "object":
            return self._object(schema, at)
        if name == "array":
            return Annotated[list[self._annotation(schema["items"], at.inside())], _bounds("array", schema)]
        if name == "string" and "pattern" in schema and (wrong := _pattern_fault(schema["pattern"])):
            self._problem(at, f"pattern {schema['pattern']!r} cannot be used: {wrong}")
            return Any
        return Annotated[(_PLAIN[name], *_STRICT[name], _bounds(name, schema), *_BEFORE.get(name, ()))]

    def _resolved(self, given: object, at: _Place) -> tuple[Json, _Place] | None:
        """The schema with its reference replaced by what it refers to; None where it is wrong, which is recorded."""
        try:
            schema, references = schema_references.inlined(self.document, given, at.open_references)
        except schema_references.BadReference as wrong:
            self._problem(at, str(wrong))
            return None
        problems = [*shape_problems(schema, at.path)]
        self.problems += problems
        return None if problems else (cast("Json", schema), replace(at, open_references=references))

    def _object(self, schema: Json, at: _Place) -> Any:
        if "properties" not in schema:
            return dict[str, self._annotation(schema["additionalProperties"], at.inside())]
        fields: dict[str, Any] = {}
        for name, one in schema["properties"].items():
            made = self._field(one, at.field(name), required=name in schema.get("required", ()))
            fields[_python_name(name, fields)] = (made[0], Field(alias=name, **made[1]))
        if self.problems:
            return Any
        return create_model(_model_name(schema, at), __base__=SchemaModel, __doc__=schema.get("description"), **fields)

    def _field(self, schema: object, at: _Place, *, required: bool) -> tuple[Any, dict[str, Any]]:
        """The type of a field, and the arguments of its `Field`."""
        annotation = self._annotation(schema, at)
        written = cast("Json", schema) if isinstance(schema, dict) else {}
        arguments: dict[str, Any] = {"description": written["description"]} if "description" in written else {}
        if required and "default" in written:
            self._problem(at, 'is in "required" and has a "default"; keep one of them')
        elif not required and "default" not in written:
            self._problem(at, 'is not in "required" and has no "default"; write one of them')
        elif not required and not self.problems:
            arguments["default"] = self._default(annotation, written["default"], at)
        return annotation, arguments

    def _default(self, annotation: Any, default: object, at: _Place) -> object:
        try:
            return TypeAdapter(annotation).validate_json(json.dumps(default), extra="forbid")
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]["msg"]
            self._problem(at, f"its default {default!r} is not valid: {first}")
            return None

    def _fixed(self, schema: Json, at: _Place) -> Any:
        values: list[object] = schema["enum"] if "enum" in schema else [schema["const"]]
        allowed = type_names(schema) if "type" in schema else [json_type(value) for value in values]
        for value in values:
            if not isinstance(value, str | int | None):
                self._problem(at, f"the value {value!r} cannot be a fixed one; write text, integers, booleans or null")
            elif json_type(value) not in allowed and not (type(value) is int and "number" in allowed):
                self._problem(at, f"the value {value!r} is not of type {' or '.join(allowed)}")
        return Literal[tuple(values)]

    def _problem(self, at: _Place, what: str) -> None:
        found = Problem(at.path, what)
        if found not in self.problems:
            self.problems.append(found)


def _whole(value: object) -> object:
    """3.0 is an integer in JSON; Conductor's expressions write some integers so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_PLAIN: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_STRICT: Mapping[str, tuple[Any, ...]] = {
    "string": (Strict(),),
    "integer": (Strict(),),
    "number": (Strict(), Field(allow_inf_nan=False)),
    "boolean": (Strict(),),
    "null": (),
}
_BEFORE = {"integer": (BeforeValidator(_whole),)}


def _bounds(name: str, schema: Json) -> Any:
    return Field(**{BOUNDS[key]: schema[key] for key in KEYWORDS[name] if key in BOUNDS and key in schema})


def _union(members: list[Any]) -> Any:
    return Union[tuple(members)]  # noqa: UP007  of types that are only known here


def _pattern_fault(pattern: str) -> str | None:
    try:
        TypeAdapter(Annotated[str, Field(pattern=pattern)])
    except SchemaError as wrong:
        lines = [line.strip() for line in str(wrong).splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ")
    return None


def _python_name(name: str, taken: Mapping[str, object]) -> str:
    """The name itself, or a similar one where Python or Pydantic does not allow it for a field."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "field"
    if not made.isidentifier() or keyword.iskeyword(made) or hasattr(BaseModel, made) or made.startswith("model_"):
        made = f"field_{made}"
    return next(one for one in _numbered(made) if one not in taken)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _model_name(schema: Json, at: _Place) -> str:
    title = schema.get("title")
    if isinstance(title, str) and title.isidentifier():
        return title
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W+", at.path) if part)
