"""The contract of a task at run time: validates Conductor's input, and turns the body's result into Conductor's output."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from perago.declare import schema
from perago.declare.signature import WorkspaceKind
from perago.errors import TaskInputError, TaskResultError
from perago.model import BranchName, CommitId, Repository, TaskInput, WorkspaceRef

Json = dict[str, Any]

MAX_OUTPUT_BYTES = 3_000_000
"""Conductor moves an output of 3 MiB or more to external storage, and it cannot be read back; above 10 MiB it fails the task."""

_WORKSPACE_FIELDS = ("repository", "branch", "ref_type", "ref")
_SHOWN = 10
_FOUND_NOTHING = (
    "the expression in the workflow's inputParameters found nothing; check the names of the step or input that it refers to"
)
_NULL_PARAM = "; in a workflow, an expression in inputParameters that finds nothing gives null"
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


@dataclass(frozen=True, slots=True)
class Contract:
    """Types and schemas of a task. The schemas are those of the whole input and the whole output."""

    kind: WorkspaceKind
    params: type[BaseModel]
    result: type[BaseModel]
    input_schema: Json
    output_schema: Json

    @property
    def input_keys(self) -> list[str]:
        return ["params"] if self.kind is WorkspaceKind.NONE else ["workspace", "params"]

    @property
    def output_keys(self) -> list[str]:
        return ["result"] if self.kind is WorkspaceKind.NONE else ["workspace", "result"]

    def parse_input(self, given: Mapping[str, Any]) -> TaskInput:
        """Validate Conductor's input; `TaskInputError` with every field that is wrong, missing or unknown."""
        problems = list(_exactly(self.input_keys, given, "input"))
        workspace = None
        if "workspace" in self.input_keys and "workspace" in given:
            problems += _workspace_problems(given["workspace"])
            workspace = None if problems else _workspace(given["workspace"])
        params, wrong = _parsed(self.params, given["params"], "params") if "params" in given else (None, [])
        problems += wrong
        if problems or params is None:
            raise TaskInputError(f"input does not satisfy the contract: {_listed(problems)}")
        return TaskInput(workspace, params)

    def parse_params(self, given: object) -> BaseModel:
        """As `parse_input`, for params alone."""
        return parse_model(self.params, given, "params")

    def parse_result(self, given: Mapping[str, Any]) -> BaseModel:
        """Validate the JSON of a command's result; `TaskResultError` with every field that is wrong, missing or unknown."""
        parsed, problems = _parsed(self.result, given, "result")
        if parsed is None:
            raise TaskResultError(f"result does not satisfy the contract: {_listed(problems)}")
        return parsed

    def result_json(self, returned: object) -> Json:
        """The body's result as JSON that satisfies the output schema; otherwise `TaskResultError`."""
        value = self._as_model(returned)
        written = self._written(value, "json")
        # Inside `Any`, Pydantic silently writes NaN as null; only the Python form still shows it.
        problems = [*_infinite(written, self._written(value, "python"), "result")]
        problems += schema.violations(self.output_schema["properties"]["result"], written, "result")
        if problems:
            raise TaskResultError(f"result does not satisfy the contract: {_listed(problems)}")
        _refuse_oversize(written)
        return written

    def output(self, result: Json, workspace: WorkspaceRef | None = None) -> Json:
        """Conductor's output; `workspace` names the commit that holds the result."""
        if (workspace is None) != (self.kind is WorkspaceKind.NONE):
            raise ValueError("a workspace task has a workspace output, and no other has")
        return {"result": result} if workspace is None else {"workspace": workspace.as_json(), "result": result}

    def _as_model(self, returned: object) -> BaseModel:
        if isinstance(returned, self.result):
            unknown = sorted(set(type(returned).model_fields) - set(self.result.model_fields))
            if unknown:
                fields = [f"result.{name}: unknown field" for name in unknown]
                raise TaskResultError(f"result does not satisfy the contract: {_listed(fields)}")
            return returned
        if not isinstance(returned, Mapping):
            raise TaskResultError(f"the body returned {type(returned).__name__}; return {self.result.__name__} or a mapping")
        try:
            return self.result.model_validate(returned, extra="forbid")
        except ValidationError as wrong:
            raise TaskResultError(f"result does not satisfy the contract: {_listed(_reasons(wrong, 'result'))}") from wrong

    def _written(self, value: BaseModel, mode: Literal["json", "python"]) -> Json:
        try:
            # Use the serializer of the declared model, not of a subclass; an attribute of a wrong type is an error.
            written = self.result.__pydantic_serializer__.to_python(value, mode=mode, by_alias=True, warnings="error")
        except (PydanticSerializationError, RecursionError) as wrong:
            raise TaskResultError(f"result cannot be written as JSON: {' '.join(str(wrong).split())}") from wrong
        return cast("Json", written)


def parse_model(model: type[BaseModel], given: object, where: str) -> BaseModel:
    """`TaskInputError` with every field that is wrong, missing or unknown."""
    parsed, problems = _parsed(model, given, where)
    if parsed is None:
        raise TaskInputError(f"input does not satisfy the contract: {_listed(problems)}")
    return parsed


def _workspace(given: Mapping[str, Any]) -> WorkspaceRef:
    return WorkspaceRef(Repository(given["repository"]), BranchName(given["branch"]), CommitId(given["ref"]))


def parse_workspace(given: object) -> WorkspaceRef:
    """`workspace` of a task's input alone; `TaskInputError` with every field that is wrong, missing or unknown."""
    problems = [*_workspace_problems(given)]
    if problems:
        raise TaskInputError(f"input does not satisfy the contract: {_listed(problems)}")
    return _workspace(cast("Mapping[str, Any]", given))


def _workspace_problems(given: object) -> Iterator[str]:
    if given is None:
        yield f"workspace is null: {_FOUND_NOTHING}"
        return
    if not isinstance(given, Mapping):
        yield f"workspace: must be an object with {', '.join(_WORKSPACE_FIELDS)}"
        return
    fields = cast("Mapping[str, Any]", given)
    yield from _exactly(_WORKSPACE_FIELDS, fields, "workspace")
    for name in _WORKSPACE_FIELDS:
        value = fields.get(name)
        if name in fields and value is None:
            yield f"workspace.{name} is null: {_FOUND_NOTHING}"
        elif name in fields and not (isinstance(value, str) and value.strip()):
            yield f"workspace.{name}: must be text that is not empty"
    if fields.get("ref_type") not in {None, "commit"}:
        yield "workspace.ref_type: must be 'commit': only a commit id never changes"


def _exactly(wanted: "list[str] | tuple[str, ...]", given: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from (f"{where}.{name}: missing" for name in wanted if name not in given)
    yield from (f"{where}.{name}: unknown field; {where} has exactly {', '.join(wanted)}" for name in given if name not in wanted)


def _parsed(model: type[BaseModel], given: object, where: str) -> tuple[BaseModel | None, list[str]]:
    """Validates JSON text, so that strict fields accept dates and enums in JSON form, and by alias, as in the schema."""
    if given is None:
        return None, [f"{where} is null: {_FOUND_NOTHING}"]
    try:
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        return None, [f"{where}: not JSON: {wrong}"]
    try:
        return model.model_validate_json(text, extra="forbid", by_alias=True, by_name=False), []
    except ValidationError as wrong:
        return None, _reasons(wrong, where)


def _reasons(wrong: ValidationError, root: str) -> list[str]:
    """Field and reason, never the value, which may be secret or large."""
    errors = wrong.errors(include_url=False, include_context=False)
    return [f"{_located(root, e['loc'])}: {_reason(e['type'], e['msg'], e['input'], root)}" for e in errors]


def _reason(kind: str, message: str, value: object, root: str) -> str:
    if kind in _UNKNOWN:
        return "unknown field"
    return f"{message}, not null{_NULL_PARAM}" if value is None and root == "params" else message


def _located(root: str, location: tuple[int | str, ...]) -> str:
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _listed(problems: list[str]) -> str:
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def _infinite(written: object, raw: object, where: str) -> Iterator[str]:
    """Compare the JSON and Python forms of a value: report infinite numbers that no serializer turned into text."""
    if isinstance(raw, float) and not math.isfinite(raw) and not isinstance(written, str):
        yield f"{where}: {raw} is not a JSON number; write None or text instead"
    elif isinstance(written, dict) and isinstance(raw, Mapping):
        pairs = zip(cast("Json", written).items(), cast("Mapping[object, object]", raw).values(), strict=False)
        for (key, one), other in pairs:
            yield from _infinite(one, other, f"{where}.{key}")
    elif isinstance(written, list) and isinstance(raw, Iterable) and not isinstance(raw, str | bytes):
        for index, (one, other) in enumerate(zip(cast("list[object]", written), cast("Iterable[object]", raw), strict=False)):
            yield from _infinite(one, other, f"{where}[{index}]")


def _refuse_oversize(written: Json) -> None:
    try:
        size = len(json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode())
    except (TypeError, ValueError, RecursionError) as wrong:
        raise TaskResultError(f"result cannot be written as JSON: {wrong}") from wrong
    if size > MAX_OUTPUT_BYTES:
        raise TaskResultError(
            f"result is {size:,} bytes as JSON, and Conductor accepts at most {MAX_OUTPUT_BYTES:,}; "
            "write large data into the workspace and return its path"
        )
