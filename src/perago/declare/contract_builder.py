"""Build the `Contract` of a task from its signature or its models, with warnings, or list every problem."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from perago.declare import json_support, schema, signature
from perago.declare.contract import Contract
from perago.declare.problems import Problem
from perago.declare.signature import Signature, WorkspaceKind

_WORKSPACE_SCHEMA = schema.closed_object(
    {
        "repository": {"type": "string", "minLength": 1},
        "branch": {"type": "string", "minLength": 1},
        "ref_type": {"type": "string", "const": "commit"},
        "ref": {"type": "string", "minLength": 1},
    }
)


@dataclass(frozen=True, slots=True)
class ContractResult:
    contract: Contract | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def build_contract(function: Callable[..., Any], *, has_workspace: bool) -> ContractResult:
    read = signature.read(function, has_workspace=has_workspace)
    return from_signature(read) if isinstance(read, Signature) else ContractResult(None, tuple(read))


def from_signature(read: Signature) -> ContractResult:
    params, result = inspected(read.params, "params"), inspected(read.result, "result")
    warnings = tuple(dict.fromkeys([*params.warnings, *result.warnings]))
    problems = (*params.problems, *result.problems)
    return ContractResult(None, problems, warnings) if problems else _with_schemas(read, warnings)


def inspected(model: type[BaseModel], direction: json_support.Direction) -> json_support.Findings:
    """Whether a model has a JSON form in that direction."""
    try:
        model.model_rebuild()
    except PydanticUndefinedAnnotation as missing:
        what = f"{model.__name__} mentions {missing.name!r}, which is not defined; define it above the task"
        return json_support.Findings([Problem(direction, what)])
    return json_support.inspect(model, direction)


def _with_schemas(read: Signature, warnings: tuple[str, ...]) -> ContractResult:
    try:
        params = schema.of(read.params, "validation")
        result = schema.of(read.result, "serialization")
    except PydanticUserError as wrong:
        what = f"no JSON Schema can be generated: {' '.join(wrong.message.split())}"
        return ContractResult(None, (Problem("signature", what),), warnings)
    except schema.SchemaTooLarge:
        what = f"has more than {schema.MOST_SCHEMAS:,} parts after all models are inlined; write flatter models"
        return ContractResult(None, (Problem("signature", what),), warnings)
    problems = tuple(_schema_problems(params, result))
    return ContractResult(None, problems, warnings) if problems else ContractResult(_contract(read, params, result), (), warnings)


def _schema_problems(params: schema.Json, result: schema.Json) -> Iterator[Problem]:
    for name, made in (("params", params), ("result", result)):
        if made.get("type") != "object" or "properties" not in made:
            yield Problem(name, "is not an object with named fields in JSON; remove its own serializer")
    for field in schema.write_only(result, "result"):
        yield Problem(field, "a secret is written as asterisks; write str, or exclude the field from the result")


def _contract(read: Signature, params: schema.Json, result: schema.Json) -> Contract:
    workspace = {} if read.kind is WorkspaceKind.NONE else {"workspace": _WORKSPACE_SCHEMA}
    return Contract(
        kind=read.kind,
        params=read.params,
        result=read.result,
        input_schema=schema.closed_object({**workspace, "params": params}),
        output_schema=schema.closed_object({**workspace, "result": result}),
    )
