"""A world is what one path through a workflow has done: where each branch is, and what steps and variables hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from perago.workflow_check import expressions
from perago.workflow_check.expressions import Expression
from perago.workflow_check.values import (
    NOTHING,
    Computed,
    Fields,
    Items,
    Literal,
    Text,
    Unknown,
    Value,
    Workspace,
    WorkspacePart,
    as_workspace,
    has_expressions,
    step_into,
)

MOST_WORLDS = 200
Key = tuple[object, ...]
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Head:
    """The commit of a branch that the last writer left."""

    version: int
    writer: str


@dataclass(frozen=True, slots=True)
class World:
    inputs: Value = field(default_factory=lambda: Unknown("workflow.input"))
    heads: Mapping[str, Head] = field(default_factory=dict[str, Head])
    variables: Mapping[str, Value] = field(default_factory=dict[str, Value])
    outputs: Mapping[str, Value] = field(default_factory=dict[str, Value])
    running: Mapping[str, str] = field(default_factory=dict[str, str])
    """By branch: a writer that no JOIN has waited for."""

    def is_current(self, workspace: Workspace) -> bool:
        """Whether no step has written to the branch since."""
        head = self.heads.get(workspace.branch)
        return head is None or workspace.version >= head.version

    def with_output(self, ref: str, value: Value) -> "World":
        return replace(self, outputs={**self.outputs, ref: value})

    def with_only(self, refs: frozenset[str]) -> "World":
        """Without the outputs of other steps."""
        return replace(self, outputs={ref: value for ref, value in self.outputs.items() if ref in refs})

    def with_head(self, branch: str, version: int, writer: str) -> "World":
        return replace(self, heads={**self.heads, branch: Head(version, writer)})

    def with_variables(self, values: Mapping[str, Value]) -> "World":
        return replace(self, variables={**self.variables, **values})

    def value(self, given: Any) -> Value:
        """The value of what an author wrote into inputParameters."""
        expression = expressions.whole(given)
        if expression is not None:
            return self.read(expression)
        if not has_expressions(given):
            return NOTHING if given is None else Literal(given)
        if isinstance(given, Mapping):
            return Fields({name: self.value(one) for name, one in cast("Mapping[str, Any]", given).items()})
        return Items([self.value(one) for one in cast("list[Any]", given)]) if isinstance(given, list) else Text()

    def read(self, expression: Expression) -> Value:
        path = expression.path
        match path[:2]:
            case ("workflow", "input"):
                start, rest = self.inputs, path[2:]
            case ("workflow", "variables"):
                start, rest = Fields(self.variables), path[2:]
            case ("workflow", _):
                return Unknown(expression.text)
            case (ref, "output"):
                start, rest = self.outputs.get(ref, NOTHING), path[2:]
            case _:
                return Unknown(expression.text)
        for name in rest:
            start = step_into(start, name)
        return start if expression.complete else Computed(Unknown(expression.text), [start])

    def key(self, old_or_absent: frozenset[str] = frozenset()) -> Key:
        """Equal for worlds in which the same steps are right. Of some steps, an old output is as wrong as none."""
        moved = tuple(sorted(self.heads))
        outputs = tuple((ref, self._output_key(ref, old_or_absent)) for ref in sorted({*self.outputs, *old_or_absent}))
        values = (outputs, self._keys(self.variables))
        return (self._key(self.inputs), moved, *values, tuple(sorted(self.running.items())))

    def _output_key(self, ref: str, old_or_absent: frozenset[str]) -> Key:
        value = self.outputs.get(ref, NOTHING)
        workspace = as_workspace(step_into(value, "workspace")) if ref in old_or_absent else None
        if ref in old_or_absent and (workspace is None or not self.is_current(workspace)):
            return ("old or absent",)
        return self._key(value)

    def _keys(self, values: Mapping[str, Value]) -> Key:
        return tuple((name, self._key(values[name])) for name in sorted(values))

    def _key(self, value: Value) -> Key:
        match value:
            case Workspace() | Unknown():
                workspace = as_workspace(value)
                assert workspace is not None  # noqa: S101 - both kinds are workspaces
                return (workspace.branch, self.is_current(workspace))
            case WorkspacePart(workspace, name):
                return (*self._key(workspace), name)
            case Fields(values):
                return self._keys(values)
            case Items(values):
                return tuple(self._key(one) for one in values)
            case Computed(likely, inputs):
                return (self._key(likely), tuple(self._key(one) for one in inputs))
            case _:
                return (type(value).__name__,)


def distinct(worlds: Iterable[World], old_or_absent: frozenset[str]) -> list[World]:
    found: dict[Key, World] = {}
    for world in worlds:
        found.setdefault(world.key(old_or_absent), world)
    return list(found.values())


def joined(start: World, lanes: Iterable[World]) -> World:
    """The world after lanes that all began in `start`."""
    made = start
    for lane in lanes:
        made = World(
            start.inputs,
            {**made.heads, **_changes(start.heads, lane.heads)},
            {**made.variables, **_changes(start.variables, lane.variables)},
            {**made.outputs, **_changes(start.outputs, lane.outputs)},
            {**made.running, **lane.running},
        )
    return made


def _changes(before: Mapping[str, _Kept], after: Mapping[str, _Kept]) -> dict[str, _Kept]:
    return {name: value for name, value in after.items() if before.get(name) != value}
