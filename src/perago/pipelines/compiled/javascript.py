"""Conditions as JavaScript for Conductor, with the answer that Python gives for the same JSON values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from perago.pipelines import graph
from perago.pipelines.compiled.expressions import Expressions
from perago.pipelines.declaration import comparisons
from perago.pipelines.declaration.comparisons import ANY, BOOLEAN, NUMBER, TEXT
from perago.pipelines.graph import Comparison

_OPERATORS = {Comparison.EQUAL: "===", Comparison.NOT_EQUAL: "!=="}
_BY_CODE_POINT = (
    "(function(a, b) { var x = Array.from(a), y = Array.from(b); "
    "for (var i = 0; i < x.length && i < y.length; i++) { if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0); } "
    "return x.length - y.length; })"
)
"""Python orders texts by code point, JavaScript by UTF-16 unit."""


@dataclass(frozen=True, slots=True)
class Script:
    expression: str
    inputs: Mapping[str, str]
    """The values that the expression uses, by name. A name has a dot, which no reference name has."""


def of(condition: graph.Condition, expressions: Expressions) -> Script:
    inputs: dict[str, str] = {}
    for reference in _references(condition):
        inputs[_name(reference)] = expressions.reference(reference)
    return Script(_expression(condition), inputs)


def _references(condition: graph.Condition) -> list[graph.Reference]:
    match condition:
        case graph.Compare():
            return [side for side in (condition.left, condition.right) if isinstance(side, graph.Reference)]
        case graph.IsTrue():
            return [condition.reference]
        case graph.AllOf() | graph.AnyOf():
            return [reference for one in condition.conditions for reference in _references(one)]


def _name(reference: graph.Reference) -> str:
    match reference.source:
        case graph.NodeResult(ref):
            return ".".join([ref, *reference.path])
        case graph.LoopIteration(ref):
            return f"{ref}.iteration"
        case _:
            return ".".join(["inputs", *reference.path])


def _expression(condition: graph.Condition) -> str:
    match condition:
        case graph.Compare():
            return _compare(condition)
        case graph.IsTrue():
            return f"{_operand(condition.reference)} === true"
        case graph.AllOf():
            return " && ".join(f"({_expression(one)})" for one in condition.conditions)
        case graph.AnyOf():
            return " || ".join(f"({_expression(one)})" for one in condition.conditions)


def _compare(condition: graph.Compare) -> str:
    left, right = _operand(condition.left), _operand(condition.right)
    kinds = _kinds(condition.left), _kinds(condition.right)
    operator = _OPERATORS.get(condition.comparison)
    if operator is None:
        if TEXT in kinds[0] | kinds[1]:
            return f"{_BY_CODE_POINT}({left}, {right}) {condition.comparison} 0"
        return f"{left} {condition.comparison} {right}"
    if _mixes_numbers_and_booleans(*kinds):
        left, right = _number_of_boolean(left), _number_of_boolean(right)
    return f"{left} {operator} {right}"


def _operand(side: graph.Reference | graph.Constant) -> str:
    if isinstance(side, graph.Reference):
        return f"$[{_quoted(_name(side))}]"
    return _quoted(side.value) if isinstance(side.value, str) else json.dumps(side.value)


def _quoted(text: str) -> str:
    """In single quotes, since the whole is part of a JSON document."""
    return "'" + json.dumps(text)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def _kinds(side: graph.Reference | graph.Constant) -> frozenset[str]:
    return comparisons.kinds(side.annotation) if isinstance(side, graph.Reference) else comparisons.constant_kinds(side.value)


def _mixes_numbers_and_booleans(left: frozenset[str], right: frozenset[str]) -> bool:
    """Python says True == 1, JavaScript says true !== 1."""
    return bool((left & {BOOLEAN, ANY} and right & {NUMBER, ANY}) or (left & {NUMBER, ANY} and right & {BOOLEAN, ANY}))


def _number_of_boolean(operand: str) -> str:
    return f"(typeof {operand} === 'boolean' ? Number({operand}) : {operand})"
