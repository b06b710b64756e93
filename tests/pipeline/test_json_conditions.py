"""Values and conditions of a running pipeline, computed on JSON."""

from typing import Any

import pytest

from perago.pipelines import conditions, graph
from perago.pipelines.conditions import Known, compare, holds, resolve
from perago.pipelines.graph import Comparison

KNOWN = Known(
    inputs={"n": 3, "inner": {"word": "x"}, "nothing": None},
    results={"a": {"rows": 5, "ok": True}, "many": [{"rows": 1}]},
    iterations={"loop": 2},
    item={"day": "2026-01-01"},
)


def reference(source: graph.Source, *path: str) -> graph.Reference:
    return graph.Reference(source, path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (graph.Constant({"a": 1}), {"a": 1}),
        (reference(graph.PipelineInput(), "n"), 3),
        (reference(graph.PipelineInput(), "inner", "word"), "x"),
        (reference(graph.NodeResult("a"), "rows"), 5),
        (reference(graph.NodeResult("many")), [{"rows": 1}]),
        (reference(graph.LoopIteration("loop")), 2),
        (reference(graph.EachItem(), "day"), "2026-01-01"),
        (graph.ObjectOf({"x": reference(graph.NodeResult("a"), "ok")}), {"x": True}),
        (graph.ListOf([graph.Constant(1), reference(graph.PipelineInput(), "n")]), [1, 3]),
    ],
)
def test_a_value_is_found(value: graph.Value, expected: Any) -> None:
    assert resolve(value, KNOWN) == expected


@pytest.mark.parametrize(
    "value",
    [
        reference(graph.PipelineInput(), "absent"),
        reference(graph.PipelineInput(), "nothing", "below"),
        reference(graph.PipelineInput(), "n", "below"),
        reference(graph.NodeResult("never ran"), "rows"),
        reference(graph.LoopIteration("other")),
    ],
)
def test_a_reference_that_finds_nothing_is_null(value: graph.Value) -> None:
    assert resolve(value, KNOWN) is None


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), ("x", "x"), (True, True), (None, None), (0.1, 0.1), ("", ""), (1, True), (0, False)]
)
def test_equal_values(left: Any, right: Any) -> None:
    assert compare(Comparison.EQUAL, left, right)
    assert not compare(Comparison.NOT_EQUAL, left, right)


@pytest.mark.parametrize(
    ("left", "right"), [(1, 2), ("x", "X"), (True, False), (None, 0), (None, False), (2, True), ("1", 1), ("", None)]
)
def test_unequal_values(left: Any, right: Any) -> None:
    assert not compare(Comparison.EQUAL, left, right)
    assert compare(Comparison.NOT_EQUAL, left, right)


@pytest.mark.parametrize(("left", "right"), [(1, 2), (1.5, 2), (-1, 0), ("a", "b"), ("B", "a"), ("", "a"), (False, True)])
def test_the_order_of_numbers_texts_and_booleans(left: Any, right: Any) -> None:
    assert compare(Comparison.LESS, left, right)
    assert compare(Comparison.AT_MOST, left, right)
    assert not compare(Comparison.GREATER, left, right)
    assert not compare(Comparison.AT_LEAST, left, right)
    assert compare(Comparison.GREATER, right, left)
    assert compare(Comparison.AT_LEAST, left, left)
    assert not compare(Comparison.LESS, left, left)


def test_texts_have_the_order_of_code_points() -> None:
    assert compare(Comparison.LESS, "\uffff", "\U0001f600")


@pytest.mark.parametrize("comparison", [Comparison.LESS, Comparison.AT_MOST, Comparison.GREATER, Comparison.AT_LEAST])
@pytest.mark.parametrize(("left", "right"), [(None, 1), (1, None), (None, None), ("1", 1), ([1], [2])])
def test_without_an_order_every_order_is_false(comparison: Comparison, left: Any, right: Any) -> None:
    assert not compare(comparison, left, right)


def test_conditions_are_combined() -> None:
    many = graph.Compare(Comparison.GREATER, reference(graph.NodeResult("a"), "rows"), graph.Constant(4))
    few = graph.Compare(Comparison.LESS, reference(graph.NodeResult("a"), "rows"), reference(graph.PipelineInput(), "n"))
    is_ok = graph.IsTrue(reference(graph.NodeResult("a"), "ok"))
    absent = graph.IsTrue(reference(graph.NodeResult("a"), "absent"))
    assert holds(graph.AllOf([many, is_ok]), KNOWN)
    assert not holds(graph.AllOf([many, few]), KNOWN)
    assert holds(graph.AnyOf([few, is_ok]), KNOWN)
    assert not holds(graph.AnyOf([few, absent]), KNOWN)


def test_only_a_boolean_is_true() -> None:
    assert not holds(graph.IsTrue(reference(graph.PipelineInput(), "n")), conditions.Known(inputs={"n": 1}))
