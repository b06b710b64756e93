"""Values and conditions of a running pipeline, as Conductor computes them from JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from perago.pipeline import graph


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
    """Values of different JSON types are never equal. Where no order exists, every order is false."""
    if comparison is graph.Comparison.EQUAL:
        return _equal(left, right)
    if comparison is graph.Comparison.NOT_EQUAL:
        return not _equal(left, right)
    keys = _order_key(left), _order_key(right)
    if keys[0] is None or keys[1] is None or type(keys[0]) is not type(keys[1]):
        return False
    return _ordered(comparison, keys[0], keys[1])


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


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _order_key(value: Any) -> float | bytes | None:
    """Numbers as JavaScript has them, booleans as 0 and 1; texts by UTF-16 units, an order that is not Python's."""
    if isinstance(value, str):
        return value.encode("utf-16-be", "surrogatepass")
    if isinstance(value, int | float):
        return float(value)
    return None


def _ordered(comparison: graph.Comparison, left: Any, right: Any) -> bool:
    match comparison:
        case graph.Comparison.LESS:
            return left < right
        case graph.Comparison.AT_MOST:
            return left <= right
        case graph.Comparison.GREATER:
            return left > right
        case _:
            return left >= right
