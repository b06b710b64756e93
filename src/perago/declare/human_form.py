"""The form of a human step: what travels in the input of its Conductor task, so that a person needs no module of the pipeline.

It says which files may be edited, under which checks, and what an answer looks like. Closed and versioned: a form that this
version does not know is refused, never read in part.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from perago.declare import check_json, checks, schema, schema_values
from perago.declare.contract import MAX_OUTPUT_BYTES, parse_workspace
from perago.declare.workspace_spec import WorkspaceSpec
from perago.errors import TaskInputError, TaskResultError
from perago.model import Listing, WorkspaceRef

Json = dict[str, Any]

VERSION = 1
WORKSPACE, QUESTION, FORM = "workspace", "question", "form"
"""The keys of the task's input."""
_FORM_KEYS = {"version", "workspace", "result"}
_WORKSPACE_KEYS = {"prefix", "read_only", "pre", "post"}
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class HumanForm:
    """`result` is the closed JSON Schema of an answer; `workspace` is None for a question without files."""

    result: Json
    workspace: WorkspaceSpec | None = None

    @property
    def publishes(self) -> bool:
        return self.workspace is not None and not self.workspace.read_only

    def as_json(self) -> Json:
        made: Json = {"version": VERSION, "result": self.result}
        spec = self.workspace
        if spec is not None:
            checks_json = {"pre": check_json.write(spec.pre), "post": check_json.write(spec.post)}
            made["workspace"] = {"prefix": spec.prefix, "read_only": spec.read_only, **checks_json}
        return made

    def check_before(self, listing: Listing) -> None:
        if self.workspace is not None:
            checks.refuse(checks.violations(self.workspace.pre, listing, "pre"), "pre")

    def check_after(self, listing: Listing) -> None:
        if self.workspace is not None:
            checks.refuse(checks.violations(self.workspace.post, listing, "post"), "post")

    def answer(self, given: object) -> Json:
        """The answer with its defaults; `TaskResultError` with every field that is wrong, missing or unknown."""
        filled = schema_values.with_defaults(self.result, given)
        wrong = [*schema_values.problems(self.result, filled, "result")]
        if wrong:
            more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise TaskResultError(f"result does not satisfy the form: {'; '.join(wrong[:_SHOWN])}{more}; {self.expected()}")
        size = len(json.dumps(filled, ensure_ascii=False).encode())
        if size > MAX_OUTPUT_BYTES:
            raise TaskResultError(f"result is {size:,} bytes as JSON, and Conductor accepts at most {MAX_OUTPUT_BYTES:,}")
        return cast("Json", filled)

    def expected(self) -> str:
        """The fields of an answer, for people who have to write one."""
        properties = cast("Mapping[str, Json]", self.result.get("properties", {}))
        if not properties:
            return "the result has no fields"
        # Conductor does not keep the order of fields, but that of lists.
        names = dict.fromkeys([*(name for name in self.result.get("required", ()) if name in properties), *properties])
        fields = (f"{name} ({schema_values.described(properties[name])}{_default(properties[name])})" for name in names)
        return f"the result has {', '.join(fields)}"


@dataclass(frozen=True, slots=True)
class HumanInput:
    """The input of a human step's task."""

    form: HumanForm
    question: Json
    workspace: WorkspaceRef | None


def of(decision: type[BaseModel], workspace: WorkspaceSpec | None) -> HumanForm:
    return HumanForm(schema.of(decision, "serialization"), workspace)


def is_form(given: object) -> bool:
    """Whether a task's input is one of a human step of Perago, of this version or another."""
    form = cast("Json", given).get(FORM) if isinstance(given, Mapping) else None
    return isinstance(form, Mapping) and "version" in form and "result" in form


def result_schema(given: Mapping[str, Any]) -> Json | None:
    """The schema of the answer in a task's input as a workflow definition has it; None where there is none."""
    form = given.get(FORM)
    result = cast("Json", form).get("result") if isinstance(form, Mapping) else None
    return cast("Json", result) if isinstance(result, dict) else None


def read(given: Mapping[str, Any]) -> HumanInput:
    """`TaskInputError` for the input of another kind of task, or of a version of Perago that this one does not know."""
    if not is_form(given):
        raise TaskInputError("the task is no human step of Perago: its input has no form")
    form = _form(cast("Json", given[FORM]))
    wanted = {FORM, QUESTION} | ({WORKSPACE} if form.workspace is not None else set[str]())
    if set(given) != wanted:
        raise TaskInputError(f"the input of a human step has exactly {', '.join(sorted(wanted))}, not {', '.join(sorted(given))}")
    question = given[QUESTION]
    if not isinstance(question, dict):
        raise TaskInputError("the question is not an object")
    workspace = None if form.workspace is None else parse_workspace(given[WORKSPACE])
    return HumanInput(form, cast("Json", question), workspace)


def _form(given: Json) -> HumanForm:
    if given["version"] != VERSION:
        raise TaskInputError(f"the form has version {given['version']!r}, and this Perago knows {VERSION}; update Perago")
    try:
        if unknown := set(given) - _FORM_KEYS:
            raise ValueError(f"it has no {', '.join(sorted(unknown))}")  # noqa: TRY301  one case for every form that cannot be read
        workspace = None if "workspace" not in given else _workspace(given["workspace"])
        if not isinstance(given["result"], dict):
            raise ValueError("its result is not a schema")  # noqa: TRY301, TRY004  as above
    except ValueError as wrong:
        raise TaskInputError(f"the form of the human step cannot be read: {wrong}") from None
    return HumanForm(cast("Json", given["result"]), workspace)


def _workspace(given: object) -> WorkspaceSpec:
    table = cast("Json", given) if isinstance(given, dict) else {}
    if set(table) != _WORKSPACE_KEYS:
        raise ValueError(f"its workspace must have exactly {', '.join(sorted(_WORKSPACE_KEYS))}")
    spec = WorkspaceSpec(table["prefix"], table["read_only"], check_json.read(table["pre"]), check_json.read(table["post"]))
    if wrong := list(spec.problems()):
        raise ValueError(f"its workspace cannot be used: {wrong[0]}")
    return spec


def _default(field: Json) -> str:
    return f", {json.dumps(field['default'], ensure_ascii=False)} if left out" if "default" in field else ""
