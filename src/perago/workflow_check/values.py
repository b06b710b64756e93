"""Symbolic values: which workspace an expression gives on one path of a workflow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from perago.workflow_check import expressions

WORKSPACE_FIELDS = ("repository", "branch", "ref", "ref_type")


@dataclass(frozen=True, slots=True)
class Nothing:
    """JSON null: the expression found nothing."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value without expressions."""

    value: Any


@dataclass(frozen=True, slots=True)
class Text:
    """A text with an expression inside it; it is no workspace."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value from outside, such as an input of the workflow. Where it is taken as a workspace, it names a branch of its own."""

    origin: str
    moment: int = 0
    """When it was read, on the clock of the versions: 0 is the start of the workflow."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A commit of a branch. Version 0 is the commit at which the workflow finds the branch; each writer makes a greater one."""

    branch: str
    version: int


@dataclass(frozen=True, slots=True)
class WorkspacePart:
    """One field of a workspace, as in `${clean.output.workspace.ref}`."""

    workspace: Workspace
    field: str


@dataclass(frozen=True, slots=True)
class Fields:
    values: Mapping[str, "Value"]
    others: Unknown | None = None
    """What the remaining fields come from; None if there are none."""


@dataclass(frozen=True, slots=True)
class Items:
    values: Sequence["Value"]


@dataclass(frozen=True, slots=True)
class Computed:
    """What a script made of its inputs; `likely` is the workspace that it gives if it is right."""

    likely: "Value"
    inputs: Sequence["Value"]


Value = Nothing | Literal | Text | Unknown | Workspace | WorkspacePart | Fields | Items | Computed

NOTHING = Nothing()


def step_into(value: Value, name: str) -> Value:
    """The field of a value."""
    match value:
        case Unknown(origin, moment):
            return Unknown(f"{origin}.{name}", moment)
        case Workspace():
            return WorkspacePart(value, name) if name in WORKSPACE_FIELDS else NOTHING
        case Fields(values, others):
            return values.get(name, NOTHING if others is None else step_into(others, name))
        case Items(values) if name.isdigit() and int(name) < len(values):
            return values[int(name)]
        case Computed(likely, inputs):
            inside = step_into(likely, name) if name in WORKSPACE_FIELDS else likely
            return Computed(inside, inputs)
        case _:
            inside = value.value if isinstance(value, Literal) else None
            return Literal(cast("Mapping[str, Any]", inside)[name]) if isinstance(inside, Mapping) and name in inside else NOTHING


def as_workspace(value: Value) -> Workspace | None:
    """The workspace that a step takes which is given this value; None if it is none."""
    match value:
        case Workspace():
            return value
        case Unknown(origin, moment):
            return Workspace(origin, moment)
        case Computed(likely):
            return as_workspace(likely)
        case Fields(values) if "branch" in values:
            return _written_out(values)
        case Literal(inside) if isinstance(inside, Mapping) and "branch" in inside:
            return Workspace(_named(cast("Mapping[str, Any]", inside)), 0)
        case _:
            return None


def _written_out(values: Mapping[str, Value]) -> Workspace:
    """An object with the fields of a workspace. A commit that comes from another branch is one that the branch begins with."""
    branch = _branch(values)
    match values.get("ref"):
        case WorkspacePart(workspace, "ref") if workspace.branch == branch:
            return workspace
        case Unknown(_, moment):
            return Workspace(branch, moment)
        case _:
            return Workspace(branch, 0)


def _branch(values: Mapping[str, Value]) -> str:
    match values["branch"]:
        case WorkspacePart(workspace, "branch"):
            return workspace.branch
        case Unknown(origin):
            return origin.removesuffix(".branch")
        case _:
            return _named({name: one.value for name, one in values.items() if isinstance(one, Literal)})


def _named(fields: Mapping[str, Any]) -> str:
    return f"branch {fields.get('branch')} of {fields.get('repository', 'the repository')}"


def workspaces_in(value: Value) -> Iterator[Value]:
    """Every value inside that may be a workspace."""
    match value:
        case Workspace() | Unknown():
            yield value
        case Fields(values):
            if "branch" in values:
                yield value
            else:
                for one in values.values():
                    yield from workspaces_in(one)
        case Items(values):
            for one in values:
                yield from workspaces_in(one)
        case Computed(_, inputs):
            for one in inputs:
                yield from workspaces_in(one)
        case _:
            return


def has_expressions(value: object) -> bool:
    return next(expressions.found_in(value), None) is not None
