"""Values of the graph as Conductor's JSON: references become `${...}` expressions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perago.pipeline import graph


@dataclass(frozen=True, slots=True)
class Expressions:
    """Knows of each reference name where its result is in the task's output."""

    results: Mapping[str, str]

    @classmethod
    def of(cls, pipeline: graph.Pipeline) -> "Expressions":
        return cls({node.ref: _result_path(node) for node in graph.walk(pipeline.nodes)})

    def value(self, value: graph.Value) -> Any:
        match value:
            case graph.Reference():
                return self.reference(value)
            case graph.Constant():
                return escaped(value.value)
            case graph.ObjectOf():
                return {name: self.value(one) for name, one in value.fields.items()}
            case graph.ListOf():
                return [self.value(one) for one in value.items]

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
        return f"${{{'.'.join([base, *reference.path])}}}"


def escaped(value: Any) -> Any:
    """A constant in which Conductor finds no expression."""
    return value


def _result_path(node: graph.Node) -> str:
    match node:
        case graph.Call():
            return f"{node.ref}.output"
        case graph.Each():
            return f"{node.ref}_end.output.result"
        case _:
            return f"{node.ref}.output.result"
