"""A declared pipeline as values: its steps in order, and where each parameter comes from.

`flow` builds it, `compiler` turns it into Conductor's JSON, `perago.local_run` runs it without servers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from perago.declare.task import TaskDeclaration
from perago.declare.workspace_spec import WorkspaceSpec

# values that are known when a workflow runs


@dataclass(frozen=True, slots=True)
class PipelineInput:
    """The inputs of the pipeline; the first element of a path names one."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The result of a step, of an `each` (a list) or of a call."""

    ref: str


@dataclass(frozen=True, slots=True)
class LoopIteration:
    """The number of the present iteration of a loop, from 1."""

    ref: str


@dataclass(frozen=True, slots=True)
class EachItem:
    """The item of the present lane of an `each`."""


Source = PipelineInput | NodeResult | LoopIteration | EachItem


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that only a run knows."""

    source: Source
    path: tuple[str, ...] = ()
    """Names of fields, as JSON has them. A path through null gives null."""
    annotation: Any = Any
    """The Python type that the field's model declares."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A JSON value."""

    value: Any


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """A JSON object of which some values are references."""

    fields: Mapping[str, "Value"]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: Sequence["Value"]


Value = Reference | Constant | ObjectOf | ListOf


# conditions


class Comparison(StrEnum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """Of two JSON values: numbers, texts, booleans or null. An order exists between numbers and between texts."""

    comparison: Comparison
    left: Reference | Constant
    right: Reference | Constant


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A boolean field."""

    reference: Reference


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: Sequence["Condition"]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: Sequence["Condition"]


Condition = Compare | IsTrue | AllOf | AnyOf


# nodes


@dataclass(frozen=True, slots=True)
class Step:
    ref: str
    task: TaskDeclaration
    params: Mapping[str, Value]
    optional: bool = False
    """The pipeline continues if its attempts fail, from the workspace before it."""

    @property
    def writes(self) -> bool:
        return self.task.publishes


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    nodes: Sequence["Node"]

    @property
    def writes(self) -> bool:
        return any_writes(self.nodes)


@dataclass(frozen=True, slots=True)
class Fork:
    """Lanes side by side. A lane that writes gets a branch of its own; the end joins them in one commit."""

    ref: str
    lanes: Sequence[Lane]

    @property
    def writes(self) -> bool:
        return any(lane.writes for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class Each:
    """One lane per item of a list, each with one step. The result is the list of the steps' results, in the items' order."""

    ref: str
    items: Value
    task: TaskDeclaration
    params: Mapping[str, Value]

    @property
    def writes(self) -> bool:
        return self.task.publishes


@dataclass(frozen=True, slots=True)
class When:
    ref: str
    condition: Condition
    then: Sequence["Node"]
    otherwise: Sequence["Node"] = ()

    @property
    def writes(self) -> bool:
        return any_writes(self.then) or any_writes(self.otherwise)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The nodes run at least once, then again until the condition holds or the limit of iterations is reached."""

    ref: str
    nodes: Sequence["Node"]
    at_most: int
    until: Condition | None = None

    @property
    def writes(self) -> bool:
        return any_writes(self.nodes)


@dataclass(frozen=True, slots=True)
class Call:
    ref: str
    pipeline: "Pipeline"
    inputs: Mapping[str, Value]

    @property
    def writes(self) -> bool:
        return self.pipeline.writes


@dataclass(frozen=True, slots=True)
class Wait:
    """For a time, or until a moment; one of the two is set."""

    ref: str
    seconds: int | None = None
    until: Value | None = None

    @property
    def writes(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Human:
    """A step that a person does: answers a question and, if there is a workspace, may edit its files."""

    ref: str
    question: type[BaseModel]
    decision: type[BaseModel]
    workspace: WorkspaceSpec | None
    params: Mapping[str, Value]
    """The fields of the question."""

    @property
    def writes(self) -> bool:
        return self.workspace is not None and not self.workspace.read_only


Node = Step | Fork | Each | When | Repeat | Call | Wait | Human


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A valid pipeline. `warnings` are shown by `perago check` and `perago submit`."""

    name: str
    owner_email: str
    description: str | None
    inputs: type[BaseModel] | None
    result: type[BaseModel] | None
    nodes: Sequence[Node]
    outputs: Mapping[str, Value]
    """The fields of the result."""
    module: str
    warnings: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return any_writes(self.nodes)

    @property
    def has_workspace(self) -> bool:
        """Whether it takes a workspace and returns one."""
        return any(task.workspace is not None for task in self.tasks()) or any(one.workspace for one in self.humans())

    @property
    def needs_lanes(self) -> bool:
        """Whether it, or a pipeline that it calls, forks writers, so that `perago.fork` and `perago.join` are among its tasks."""
        forks = any(isinstance(node, Fork | Each) and node.writes for node in walk(self.nodes))
        return forks or any(one.needs_lanes for one in self.called())

    def tasks(self) -> Sequence[TaskDeclaration]:
        """Every task of the pipeline and of those that it calls, once each, in the order of their first use."""
        found: dict[str, TaskDeclaration] = {}
        for node in walk(self.nodes):
            if isinstance(node, Step | Each):
                found.setdefault(node.task.name, node.task)
            elif isinstance(node, Call):
                for task in node.pipeline.tasks():
                    found.setdefault(task.name, task)
        return list(found.values())

    def humans(self) -> Sequence[Human]:
        """Every human step of the pipeline and of those that it calls."""
        pipelines: list[Pipeline] = [self, *self.called()]
        return [node for one in pipelines for node in walk(one.nodes) if isinstance(node, Human)]

    def called(self) -> Sequence["Pipeline"]:
        """Every pipeline that it calls, those that the called ones call first."""
        found: dict[str, Pipeline] = {}
        for node in walk(self.nodes):
            if isinstance(node, Call):
                for one in (*node.pipeline.called(), node.pipeline):
                    found.setdefault(one.name, one)
        return list(found.values())


def any_writes(nodes: Sequence[Node]) -> bool:
    return any(node.writes for node in nodes)


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Every node and the nodes inside it, in the order of declaration. Does not enter called pipelines."""
    for node in nodes:
        yield node
        match node:
            case Fork():
                for lane in node.lanes:
                    yield from walk(lane.nodes)
            case When():
                yield from walk(node.then)
                yield from walk(node.otherwise)
            case Repeat():
                yield from walk(node.nodes)
            case Step() | Each() | Call() | Wait() | Human():
                pass
