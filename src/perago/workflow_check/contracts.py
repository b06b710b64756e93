"""The inputs of known tasks against their contracts, and the fields of their outputs that other tasks read."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import ValidationError

from perago.declare.task import TaskDeclaration
from perago.workflow_check import expressions, schemas
from perago.workflow_check.definition import Task, Workflow
from perago.workflow_check.expressions import Place
from perago.workflow_check.findings import Finding, Level, did_you_mean
from perago.workflow_check.references import in_task
from perago.workflow_check.schemas import NoSuchField
from perago.workflow_check.sources import Sources

Json = dict[str, Any]
Tasks = Mapping[str, TaskDeclaration]


class Contracts:
    """The tasks of one workflow whose declarations are known."""

    def __init__(self, workflow: Workflow, tasks: Tasks, sources: Sources) -> None:
        self._workflow = workflow
        self._tasks = tasks
        self._sources = sources

    def findings(self) -> Iterator[Finding]:
        for task in self._workflow.walk():
            yield from self._fields_read(task)
            declared = declaration_of(task, self._tasks)
            if declared is not None and "inputExpression" not in task.raw:
                yield from self._inputs(task, declared)
        for place, expression in expressions.found_in(self._workflow.outputs):
            yield from self._field_read(None, Place(("outputParameters", *place.path)), expression)

    def _fields_read(self, task: Task) -> Iterator[Finding]:
        for place, expression in in_task(task):
            yield from self._field_read(task.ref, place, expression)

    def _field_read(self, ref: str | None, place: Place, expression: expressions.Expression) -> Iterator[Finding]:
        try:
            self._sources.of(expression)
        except NoSuchField as missing:
            level = Level.WARNING if place.in_script else Level.ERROR
            yield Finding(ref, f"{place} takes {expression}, but {missing}", level)

    def _inputs(self, task: Task, declared: TaskDeclaration) -> Iterator[Finding]:
        keys = declared.contract.input_keys
        for name in task.inputs:
            if name not in keys:
                hint = _unknown_input(name, declared)
                yield Finding(task.ref, f"{name} is not an input of {declared.name}{hint}")
        if "params" in task.inputs:
            yield from self._params(task, declared)
        elif declared.contract.params.model_fields:
            fields = ", ".join(f'"{name}": …' for name in _required(_params_schema(declared)))
            yield Finding(task.ref, f'the input params is missing; write "params": {{{fields}}}')
        else:
            yield Finding(task.ref, 'the input params is missing; write "params": {}')

    def _params(self, task: Task, declared: TaskDeclaration) -> Iterator[Finding]:
        given: object = task.inputs["params"]
        schema = _params_schema(declared)
        if not isinstance(given, dict):
            yield from self._value(task, Place(("params",)), given, schema)
            return
        fields = cast("Json", given)
        wrong = set[str]()
        for name, value in fields.items():
            inside = cast("Mapping[str, Json]", schema.get("properties", {})).get(name)
            if inside is not None and _has_expressions(value):
                wrong.add(name)
                yield from self._value(task, Place(("params", name)), value, inside)
        yield from _literal_problems(task, declared, fields, frozenset(wrong))

    def _value(self, task: Task, place: Place, value: object, schema: Json) -> Iterator[Finding]:
        expression = expressions.whole(value)
        if expression is not None:
            yield from self._expression(task, place, expression, schema)
        elif isinstance(value, str):
            if (
                reason := schemas.mismatch({"type": "string"} if _has_expressions(value) else _literal(value), schema)
            ) is not None:
                yield Finding(task.ref, f"{place}: {reason}; write {_article(schema)}")
        elif isinstance(value, dict):
            yield from self._object(task, place, cast("Json", value), schema)
        elif isinstance(value, list):
            yield from self._list(task, place, cast("list[object]", value), schema)
        elif (reason := schemas.mismatch(_literal(value), schema)) is not None:
            yield Finding(task.ref, f"{place}: {reason}; write {_article(schema)}")

    def _expression(self, task: Task, place: Place, expression: expressions.Expression, schema: Json) -> Iterator[Finding]:
        try:
            source = self._sources.at(task.ref, expression)
        except NoSuchField:
            return  # reported where the field is read
        reason = schemas.mismatch(source.schema, schema)
        if reason is not None:
            yield Finding(task.ref, f"{place} takes {expression}: {reason}; write {_article(schema)}")
        elif source.absent is not None and not schemas.accepts_null(schema):
            yield Finding(
                task.ref,
                f"{place} takes {expression}, which is null on some paths: {source.absent}; "
                f"write a value that exists on every path, or declare the parameter as {schemas.described(schema)} or null",
            )

    def _object(self, task: Task, place: Place, value: Json, schema: Json) -> Iterator[Finding]:
        objects = [one for one in schemas.choices(schema) if one.get("type", "object") == "object"]
        if not objects:
            yield Finding(task.ref, f"{place}: object does not fit {schemas.described(schema)}; write {_article(schema)}")
        if len(objects) != 1:
            return
        properties = cast("Mapping[str, object]", objects[0].get("properties", {}))
        others: object = objects[0].get("additionalProperties", True)
        for name in _required(objects[0]):
            if name not in value:
                yield Finding(task.ref, f'{place.below(name)} is missing; write "{name}": …')
        for name, one in value.items():
            inside = properties.get(name, others)
            if inside is False:
                yield Finding(task.ref, f"{place.below(name)} is unknown{did_you_mean(name, properties)}")
            elif isinstance(inside, dict):
                yield from self._value(task, place.below(name), one, cast("Json", inside))

    def _list(self, task: Task, place: Place, value: list[object], schema: Json) -> Iterator[Finding]:
        arrays = [one for one in schemas.choices(schema) if one.get("type", "array") == "array"]
        if not arrays:
            yield Finding(task.ref, f"{place}: array does not fit {schemas.described(schema)}; write {_article(schema)}")
        if len(arrays) != 1 or "prefixItems" in arrays[0]:
            return
        items = arrays[0].get("items")
        for index, one in enumerate(value):
            if isinstance(items, dict):
                yield from self._value(task, place.below(index), one, cast("Json", items))


def declaration_of(task: Task, tasks: Tasks) -> TaskDeclaration | None:
    """The declaration of a task that a worker runs, if it is known."""
    return tasks.get(task.name) if task.is_worker_task and not task.has_dynamic_name else None


def _unknown_input(name: str, declared: TaskDeclaration) -> str:
    if name == "workspace":
        return ", which has no workspace; remove it"
    if name in declared.contract.params.model_fields:
        return f'; write it inside params: "params": {{"{name}": …}}'
    return did_you_mean(name, declared.contract.input_keys) or f"; it has {' and '.join(declared.contract.input_keys)}"


def _params_schema(declared: TaskDeclaration) -> Json:
    return cast("Json", declared.contract.input_schema["properties"]["params"])


def _required(schema: Json) -> list[str]:
    return [str(name) for name in schema.get("required", ())]


def _literal_problems(task: Task, declared: TaskDeclaration, given: Json, skipped: frozenset[str]) -> Iterator[Finding]:
    """What the model says of the fields without expressions, and of those that are missing or unknown."""
    known = {**given, **dict.fromkeys(skipped)}
    try:
        declared.contract.params.model_validate_json(json.dumps(known), extra="forbid", by_alias=True, by_name=False)
    except ValidationError as wrong:
        for error in wrong.errors(include_url=False, include_context=False, include_input=False):
            location = error["loc"]
            if skipped and (not location or location[0] in skipped):
                continue  # the placeholder's problem, not the author's
            place = Place(("params", *location))
            yield Finding(task.ref, _literal_problem(place, error["type"], error["msg"], declared))


def _literal_problem(place: Place, kind: str, message: str, declared: TaskDeclaration) -> str:
    name = str(place.path[-1])
    properties = cast("Json", _params_schema(declared).get("properties", {}))
    if kind == "missing":
        return f'{place} is missing; write "{name}": …'
    if kind == "extra_forbidden":
        has = f"; {declared.name} has {', '.join(properties) or 'no params'}"
        return f"{place} is unknown{did_you_mean(name, properties) or has}"
    return f"{place}: {message[:1].lower()}{message[1:]}"


def _has_expressions(value: object) -> bool:
    return next(expressions.found_in(value), None) is not None


def _literal(value: object) -> Json:
    kinds: dict[type[object], str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": kinds[type(value)], "const": value} if type(value) in kinds else schemas.ANYTHING


def _article(schema: Json) -> str:
    text = schemas.described(schema)
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}" if not text.startswith(("one of", "any")) else text
