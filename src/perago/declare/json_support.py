"""Check that a Pydantic model can be read from or written to Conductor's JSON, and list problems and warnings by field.

Traverses Pydantic's core schema, which validation and serialisation themselves use.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, cast

from pydantic import BaseModel

from perago.declare.problems import Problem

Direction = Literal["params", "result"]
Core = Mapping[str, Any]

_NO_JSON = {
    "callable": "a callable",
    "is-subclass": "a class",
    "is-instance": "a type without a JSON form",
    "arguments": "call arguments",
    "call": "a call",
    "generator": "an iterator",
}
_NO_KEY = frozenset(
    {"int", "float", "bool", "none", "bytes", "tuple", "list", "set", "frozenset", "dict", "model", "dataclass", "complex"}
)
_WRITES_TEXT = frozenset({"to-string", "format"})


@dataclass(slots=True)
class Findings:
    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Position:
    """A place in the schema: the field's path, the configuration of the enclosing model, the definitions being expanded."""

    path: str
    config: Core
    open_references: tuple[str, ...] = ()


def inspect(model: type[BaseModel], direction: Direction, root: str = "") -> Findings:
    """What in `model` has no JSON form in that direction, and warnings for its author. Paths begin with `root`."""
    walker = _SchemaWalker(direction)
    walker.visit(model.__pydantic_core_schema__, _Position(root or direction, {}))
    return walker.findings


class _SchemaWalker:
    def __init__(self, direction: Direction) -> None:
        self.findings = Findings()
        self._writing = direction == "result"
        self._definitions: dict[str, Core] = {}
        self._finished: set[str] = set()
        self._configured: set[type] = set()

    def visit(self, core: Core, at: _Position) -> None:
        if self._writing and "serialization" in core and self._written_otherwise(core["serialization"], at):
            return
        handler = _HANDLERS.get(core["type"])
        if core["type"] in _NO_JSON:
            self._problem(
                at, f"{_NO_JSON[core['type']]} cannot be represented in JSON; write a type that can, such as str or a model"
            )
        elif handler is not None:
            handler(self, core, at)
        else:
            self._inside(core, at)

    def _problem(self, at: _Position, what: str) -> None:
        found = Problem(at.path, what)
        if found not in self.findings.problems:
            self.findings.problems.append(found)

    def _written_otherwise(self, serialization: Core, at: _Position) -> bool:
        """Whether a custom serializer determines what is written, instead of the type."""
        if serialization["type"] in _WRITES_TEXT:
            return True
        if serialization["type"] not in {"function-plain", "function-wrap"}:
            return False
        if "return_schema" in serialization:
            self.visit(serialization["return_schema"], at)
        elif is_authors_own(serialization["function"]):
            self._warn_unannotated(serialization, at)
        return True

    def _warn_unannotated(self, serialization: Core, at: _Position) -> None:
        name = getattr(serialization["function"], "__name__", "a serializer")
        self.findings.warnings.append(
            f"{at.path}: serializer {name} has no return annotation, so the output schema allows anything there; annotate it."
        )

    def _inside(self, core: Core, at: _Position) -> None:
        """Wrappers and containers without special rules."""
        has_input_schema = not self._writing and "json_schema_input_schema" in core
        for key in ("json_schema_input_schema",) if has_input_schema else _NESTED:
            for one in _schemas(core.get(key)):
                self.visit(one, at)

    def definitions(self, core: Core, at: _Position) -> None:
        self._definitions |= {definition["ref"]: definition for definition in core["definitions"]}
        self.visit(core["schema"], at)

    def reference(self, core: Core, at: _Position) -> None:
        reference = core["schema_ref"]
        if reference in at.open_references:
            name = _class_name(self._definitions[reference])
            self._problem(at, f"{name} contains itself; a contract has no recursive models: write the depth that is needed")
        elif reference not in self._finished:
            self.visit(self._definitions[reference], _Position(at.path, at.config, (*at.open_references, reference)))
            self._finished.add(reference)

    def model(self, core: Core, at: _Position) -> None:
        config = core.get("config", {})
        cls = core["cls"]
        own = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None)
        if own and cls not in self._configured:
            self._configured.add(cls)
            self.findings.warnings.append(
                f"{cls.__name__} has its own model_config ({', '.join(sorted(own))}); "
                "Perago refuses unknown fields in every model regardless."
            )
        self.visit(core["schema"], _Position(at.path, config or at.config, at.open_references))

    def fields(self, core: Core, at: _Position) -> None:
        for name, one in _named_fields(core["fields"]):
            self._field(name, one, at)
        for one in core.get("computed_fields", ()) if self._writing else ():
            self.visit(one["return_schema"], _Position(f"{at.path}.{one['property_name']}", at.config, at.open_references))

    def _field(self, name: str, core: Core, at: _Position) -> None:
        inside = _Position(f"{at.path}.{name}", at.config, at.open_references)
        if self._writing and core.get("serialization_exclude"):
            return
        if not self._writing and isinstance(core.get("validation_alias"), list):
            self._problem(inside, "AliasPath and AliasChoices cannot be expressed in a closed schema; write one validation_alias")
        self.visit(core["schema"], inside)

    def raw_bytes(self, _core: Core, at: _Position) -> None:
        if self._writing and at.config.get("ser_json_bytes", "utf8") == "utf8":
            self._problem(
                at,
                "bytes that are not UTF-8 text have no JSON form; write pydantic.Base64Bytes, or a file in the workspace",
            )

    def mapping(self, core: Core, at: _Position) -> None:
        for key in self._key_types(core.get("keys_schema", {"type": "any"})):
            if key in _NO_KEY:
                self._problem(at, f"JSON keys are strings, not {key}; write dict[str, ...]")
        if "values_schema" in core:
            self.visit(core["values_schema"], _Position(f"{at.path}[]", at.config, at.open_references))

    def _key_types(self, core: Core) -> Iterator[str]:
        if core["type"] == "union":
            for choice in _choices_of(core):
                yield from self._key_types(choice)
        elif core["type"] in {"literal", "enum"}:
            values: list[object] = core["expected"] if core["type"] == "literal" else [m.value for m in core["members"]]
            yield from (
                type(v).__name__ for v in (v.value if isinstance(v, Enum) else v for v in values) if not isinstance(v, str)
            )
        elif core["type"] == "definition-ref":
            yield from self._key_types(self._definitions[core["schema_ref"]])
        elif "schema" in core and core["type"] not in {"model", "dataclass"}:
            yield from self._key_types(core["schema"])
        else:
            yield core["type"]

    def items(self, core: Core, at: _Position) -> None:
        for one in _schemas(core.get("items_schema")):
            self.visit(one, _Position(f"{at.path}[]", at.config, at.open_references))

    def choices(self, core: Core, at: _Position) -> None:
        for choice in _choices_of(core):
            self.visit(choice, at)

    def values(self, core: Core, at: _Position) -> None:
        values: list[object] = core["expected"] if core["type"] == "literal" else [m.value for m in core["members"]]
        for value in values:
            plain = value.value if isinstance(value, Enum) else value
            if not _is_json_scalar(plain):
                self._problem(at, f"the value {plain!r} has no JSON form of its own; write text, whole numbers or booleans")


_NESTED = ("schema", "json_schema", "lax_schema", "items_schema", "steps")

_HANDLERS: Mapping[str, Callable[[_SchemaWalker, Core, _Position], None]] = {
    "definitions": _SchemaWalker.definitions,
    "definition-ref": _SchemaWalker.reference,
    "model": _SchemaWalker.model,
    "dataclass": _SchemaWalker.model,
    "model-fields": _SchemaWalker.fields,
    "dataclass-args": _SchemaWalker.fields,
    "typed-dict": _SchemaWalker.fields,
    "bytes": _SchemaWalker.raw_bytes,
    "dict": _SchemaWalker.mapping,
    "list": _SchemaWalker.items,
    "set": _SchemaWalker.items,
    "frozenset": _SchemaWalker.items,
    "tuple": _SchemaWalker.items,
    "union": _SchemaWalker.choices,
    "tagged-union": _SchemaWalker.choices,
    "literal": _SchemaWalker.values,
    "enum": _SchemaWalker.values,
}


def is_authors_own(serializer: object) -> bool:
    """False for Pydantic's own serializers, for example of paths, which write what the type's schema says."""
    return str(getattr(serializer, "__module__", "")).partition(".")[0] != "pydantic"


def _schemas(nested: object) -> list[Core]:
    """One schema, several or none, as a list."""
    listed = cast("list[object]", nested) if isinstance(nested, list) else [nested]
    return [cast("Core", one) for one in listed if isinstance(one, dict)]


def _choices_of(core: Core) -> list[Core]:
    """A union lists its choices, some with a label; a tagged union maps tags to choices."""
    choices = core["choices"]
    listed = cast("Iterable[Any]", choices.values() if isinstance(choices, dict) else choices)  # pyright: ignore[reportUnknownMemberType]
    return [choice[0] if isinstance(choice, tuple) else choice for choice in listed]


def _named_fields(fields: object) -> list[tuple[str, Core]]:
    """Models and typed dictionaries have their fields in a dictionary, dataclasses in a list."""
    if isinstance(fields, dict):
        return list(cast("dict[str, Core]", fields).items())
    return [(one["name"], one) for one in cast("list[Core]", fields)]


def _class_name(core: Core) -> str:
    return core["cls"].__name__ if "cls" in core else str(core["ref"]).partition(":")[0].rpartition(".")[2]


def _is_json_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
