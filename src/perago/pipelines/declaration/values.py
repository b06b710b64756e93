"""Turns what an author passes as a parameter into values of the graph, and checks it against the parameter's type."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from perago.pipelines import graph
from perago.pipelines.declaration import model_fields, symbols, type_rules
from perago.pipelines.declaration.model_fields import Form, ModelField
from perago.pipelines.declaration.recorded_models import has_references
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import ConditionSymbol, Known, Symbol
from perago.pipelines.declaration.type_rules import Forms

_NOTHING = graph.Constant(None)


@dataclass(frozen=True, slots=True)
class Converter:
    """`item` is what `flow.item` stands for, inside `flow.each`."""

    declaration: Declaration
    item: Known | None = None

    def convert(self, value: object, annotation: object, where: str, form: Form = Form.READ) -> graph.Value:
        """`form` is that of the models that the value contains. Problems are recorded with `where`."""
        if isinstance(value, Symbol):
            return self._reference(value, annotation, where, form)
        if isinstance(value, ConditionSymbol):
            self.declaration.problem(where, "takes a value, not a condition; use flow.when, or let a task compare")
            return _NOTHING
        if not has_references(value):
            return self.literal(value, annotation, where)
        return self._compound(value, annotation, where, form)

    def literal(self, value: object, annotation: object, where: str) -> graph.Value:
        written = self.written(value, where)
        if isinstance(written, graph.Constant) and (wrong := _invalid(annotation, written.value)):
            self.declaration.problem(where, f"{_short(value)} is not valid: {wrong}")
        return written or _NOTHING

    def written(self, value: object, where: str) -> graph.Constant | None:
        """A value as JSON; a problem if it has no JSON form."""
        if isinstance(value, SecretStr | SecretBytes):
            self.declaration.problem(where, "a secret must not be part of a workflow; let the task read it where it runs")
            return None
        try:
            written = to_jsonable_python(value, by_alias=True, serialize_unknown=False)
            json.dumps(written, allow_nan=False)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError):
            self.declaration.problem(where, f"{_short(value)} has no JSON form")
            return None
        return graph.Constant(written)

    def model_fields(
        self, given: Mapping[str, object], model: type[BaseModel], where: str, form: Form = Form.READ
    ) -> dict[str, graph.Value]:
        """The fields of a model by JSON name, with the problems of unknown, missing and invalid ones."""
        fields = model_fields.fields(model, form)
        by_keyword = _by_keyword(fields)
        known: dict[str, tuple[ModelField, object]] = {}
        for keyword, value in given.items():
            if field := by_keyword.get(keyword):
                known[field.json_name] = (field, value)
            else:
                self.declaration.problem(where, f"unknown parameter {keyword!r}; {_hint(keyword, fields)}")
        for field in fields.values():
            if field.required and field.json_name not in known:
                self.declaration.problem(f"{where}.{field.name}", f"missing; it takes {type_rules.shown(field.annotation)}")
        if form is Form.READ:
            return self._read_fields(known, model, where)
        return {
            name: self.convert(value, field.annotation, f"{where}.{field.name}", form) for name, (field, value) in known.items()
        }

    def _read_fields(
        self, known: Mapping[str, tuple[ModelField, object]], model: type[BaseModel], where: str
    ) -> dict[str, graph.Value]:
        """Literals are validated by the model itself, as the worker does it, so that its own validators count."""
        literals: dict[str, object] = {}
        found: dict[str, graph.Value] = {}
        for name, (field, value) in known.items():
            place = f"{where}.{field.name}"
            if has_references(value):
                found[name] = self.convert(value, field.annotation, place)
            elif written := self.written(value, place):
                found[name], literals[name] = written, written.value
        names = {name: field.name for name, (field, _value) in known.items()}
        for location, message in _model_errors(model, literals, complete=len(literals) == len(known)):
            at = ".".join([where, *(names.get(str(step), str(step)) for step in location[:1]), *map(str, location[1:])])
            value = f"{_short(known[str(location[0])][1])} is not valid: " if location and str(location[0]) in known else ""
            self.declaration.problem(at, f"{value}{message}")
        return found

    def _reference(self, value: Symbol, annotation: object, where: str, form: Form) -> graph.Value:
        what = self._resolved(symbols.known(value), where)
        if not self.declaration.may_use(what, where):
            return _NOTHING
        if not type_rules.fits(what.reference.annotation, annotation, Forms(what.form, form)):
            takes, has = type_rules.shown(annotation), type_rules.shown(what.reference.annotation)
            self.declaration.problem(where, f"takes {takes}; {what.label} is {has}{_why(what, annotation)}")
        return whole_inputs(what) or what.reference

    def _resolved(self, what: Known, where: str) -> Known:
        """`flow.item.field` is recorded by name only, and gets its types here."""
        if not isinstance(what.reference.source, graph.EachItem):
            return what
        if self.item is None:
            self.declaration.problem(where, "flow.item is the item of flow.each and has no meaning elsewhere")
            return what
        found = Symbol(self.item)
        for name in what.reference.path:
            found = getattr(found, name)
        return symbols.known(found)

    def _compound(self, value: object, annotation: object, where: str, form: Form) -> graph.Value:
        if isinstance(value, BaseModel):
            return self._model(value, annotation, where, form)
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), annotation, where, form)
        if isinstance(value, list | tuple):
            return self._list(cast("Sequence[object]", value), annotation, where, form)
        self.declaration.problem(
            where, f"references cannot stand inside a {type(value).__name__}; pass a model, a list or a dict"
        )
        return _NOTHING

    def _model(self, value: BaseModel, annotation: object, where: str, form: Form) -> graph.Value:
        if not type_rules.fits(type(value), annotation, Forms(form, form)):
            self.declaration.problem(where, f"takes {type_rules.shown(annotation)}, not {type(value).__name__}")
        return graph.ObjectOf(self.model_fields(value.__dict__, type(value), where, form))

    def _mapping(self, value: Mapping[object, object], annotation: object, where: str, form: Form) -> graph.Value:
        model = model_fields.model_of(annotation)
        if model is not None:
            return graph.ObjectOf(self.model_fields(cast("Mapping[str, object]", value), model, where, form))
        inside = type_rules.entry_type(annotation)
        if inside is None:
            self.declaration.problem(where, f"takes {type_rules.shown(annotation)}, not a dict")
            return _NOTHING
        return graph.ObjectOf({str(key): self.convert(one, inside, f"{where}.{key}", form) for key, one in value.items()})

    def _list(self, value: Sequence[object], annotation: object, where: str, form: Form) -> graph.Value:
        inside = type_rules.element_type(annotation)
        if inside is None:
            self.declaration.problem(where, f"takes {type_rules.shown(annotation)}, not a list")
            return _NOTHING
        return graph.ListOf([self.convert(one, inside, f"{where}[{index}]", form) for index, one in enumerate(value)])


def whole_inputs(what: Known) -> graph.Value | None:
    """The inputs of the pipeline as a whole are their fields: the workflow's input has the workspace too."""
    if not isinstance(what.reference.source, graph.PipelineInput) or what.reference.path:
        return None
    model = model_fields.model_of(what.reference.annotation)
    if model is None:
        return None
    fields = model_fields.fields(model, Form.READ)
    return graph.ObjectOf(
        {
            field.json_name: graph.Reference(graph.PipelineInput(), (field.json_name,), field.annotation)
            for field in fields.values()
        }
    )


def _by_keyword(fields: Mapping[str, ModelField]) -> dict[str, ModelField]:
    """By Python name, or by alias where no other field has that name."""
    return {**{field.json_name: field for field in fields.values()}, **fields}


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"accepted are {', '.join(names) or 'none'}"


def _why(what: Known, annotation: object) -> str:
    if not what.leaves_block and isinstance(what.reference.source, graph.NodeResult):
        return ", since the step is optional"
    given, wanted = model_fields.model_of(what.reference.annotation), model_fields.model_of(annotation)
    same = type_rules.shown(what.reference.annotation) == type_rules.shown(annotation)
    if same or (given is not None and wanted is not None and issubclass(given, wanted)):
        return ", whose JSON has other fields than the parameter reads"
    return ""


def _invalid(annotation: object, written: object) -> str | None:
    """Why a JSON value is not valid for a type, as the worker would say; None if it is."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", annotation))
    except PydanticUserError:
        return None
    try:
        adapter.validate_json(json.dumps(written), extra="forbid", by_alias=True, by_name=False)
    except ValidationError as wrong:
        return "; ".join(_located(error["loc"], error["msg"]) for error in wrong.errors(include_url=False)[:3])
    return None


def _model_errors(
    model: type[BaseModel], literals: Mapping[str, object], *, complete: bool
) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """What the model says about literals. Missing fields are reported elsewhere; rules over several fields need all of them."""
    try:
        model.model_validate_json(json.dumps(literals), extra="forbid", by_alias=True, by_name=False)
    except ValidationError as wrong:
        for error in wrong.errors(include_url=False):
            location = error["loc"]
            if (location and location[0] in literals) or (complete and not location):
                yield location, error["msg"]


def _located(location: tuple[int | str, ...], message: str) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")
    return f"{path}: {message}" if path else message


def _short(value: object, most: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[:most]}…"
