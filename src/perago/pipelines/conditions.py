"""Values and conditions of a running pipeline, as Conductor computes them from JSON."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from perago.pipelines import graph

_OPERATORS: Mapping[graph.Comparison, Callable[[Any, Any], bool]] = {
    graph.Comparison.EQUAL: operator.eq,
    graph.Comparison.NOT_EQUAL: operator.ne,
    graph.Comparison.LESS: operator.lt,
    graph.Comparison.AT_MOST: operator.le,
    graph.Comparison.GREATER: operator.gt,
    graph.Comparison.AT_LEAST: operator.ge,
}


@dataclass(slots=True)
class Known:
    """What a run of one pipeline knows so far, all of it JSON."""

    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    """By the reference names of steps, each and calls."""
    iterations: dict[str, int] = field(default_factory=dict[str, int])
    """By the reference names of loops, from 1."""
    item: Any = None
    """Of the present lane of an `each`."""


def resolve(value: graph.Value, known: Known) -> Any:
    """The JSON of a value. A reference that finds nothing is null, as in Conductor."""
    match value:
        case graph.Constant():
            return value.value
        case graph.ObjectOf():
            return {name: resolve(inner, known) for name, inner in value.fields.items()}
        case graph.ListOf():
            return [resolve(inner, known) for inner in value.items]
        case graph.Reference():
            return _at(_source(value.source, known), value.path)


def holds(condition: graph.Condition, known: Known) -> bool:
    match condition:
        case graph.AllOf():
            return all(holds(one, known) for one in condition.conditions)
        case graph.AnyOf():
            return any(holds(one, known) for one in condition.conditions)
        case graph.IsTrue():
            return resolve(condition.reference, known) is True
        case graph.Compare():
            return compare(condition.comparison, resolve(condition.left, known), resolve(condition.right, known))


def compare(comparison: graph.Comparison, left: Any, right: Any) -> bool:
    """As Python compares them, which the compiled conditions do too. Where no order exists, every order is false."""
    if comparison not in {graph.Comparison.EQUAL, graph.Comparison.NOT_EQUAL} and not _have_an_order(left, right):
        return False
    return _OPERATORS[comparison](left, right)


def _source(source: graph.Source, known: Known) -> Any:
    match source:
        case graph.PipelineInput():
            return known.inputs
        case graph.NodeResult():
            return known.results.get(source.ref)
        case graph.LoopIteration():
            return known.iterations.get(source.ref)
        case graph.EachItem():
            return known.item


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(name)
    return value


def _have_an_order(left: Any, right: Any) -> bool:
    """Numbers and booleans, or texts. Declarations with others are refused."""
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in (int | float, str))
