"""Values of the graph as Conductor's JSON: references become `${...}` expressions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from perago.pipelines import graph, reference_names

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Expressions:
    """Knows of each reference name where its result is in the task's output."""

    results: Mapping[str, str]

    @classmethod
    def of(cls, pipeline: graph.Pipeline) -> "Expressions":
        return cls({node.ref: _result_path(node) for node in graph.walk(pipeline.nodes)})

    def value(self, value: graph.Value) -> Any:
        """`flow.item` becomes null here; the compiler of `each` puts it in its place."""
        match value:
            case graph.Reference(source=graph.EachItem()):
                return None
            case graph.Reference():
                return self.reference(value)
            case graph.Constant():
                return escaped(value.value)
            case graph.ObjectOf():
                return {name: self.value(one) for name, one in value.fields.items()}
            case graph.ListOf():
                return [self.value(one) for one in value.items]

    def values(self, values: Mapping[str, graph.Value]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in values.items()}

    def reference(self, reference: graph.Reference) -> str:
        match reference.source:
            case graph.PipelineInput():
                base = "workflow.input"
            case graph.NodeResult(ref):
                base = self.results[ref]
            case graph.LoopIteration(ref):
                base = f"{ref}.output.iteration"
            case graph.EachItem():
                raise ValueError("the item of an each is known inside the each only")
        return f"${{{base}{''.join(map(_step, reference.path))}}}"


def output(ref: str, path: str) -> str:
    """An expression for a part of a task's output."""
    return f"${{{ref}.output.{path}}}"


def escaped(value: Any) -> Any:
    """A constant in which Conductor finds no expression: it turns `$${` into `${`."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {name: escaped(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [escaped(one) for one in cast("list[Any]", value)]
    return value


def _step(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"


def _result_path(node: graph.Node) -> str:
    match node:
        case graph.Call():
            return f"{node.ref}.output"
        case graph.Each() if node.writes:
            return f"{reference_names.results(node.ref)}.output.result.results"
        case graph.Each():
            return f"{reference_names.end(node.ref)}.output.result"
        case _:
            return f"{node.ref}.output.result"
