"""Which values a condition may compare, so that Conductor's answer is the one that Python would give."""

import datetime as dt
import decimal
import math
import typing
import uuid
from enum import Enum
from typing import Any

from perago.pipelines import graph
from perago.pipelines.declaration import model_fields, type_rules
from perago.pipelines.graph import Comparison

LARGEST_WHOLE = 2**53
"""Above it, JavaScript no longer tells whole numbers apart."""

BOOLEAN, NUMBER, TEXT, DATE, NULL, ANY = "boolean", "number", "text", "date", "null", "any"
_INEXACT = (dt.datetime, dt.time, dt.timedelta, decimal.Decimal)


def kinds(annotation: object) -> frozenset[str]:
    """The kinds of JSON values of a type; empty if it has one that no condition may compare."""
    found = [_kinds_of_one(one) for one in model_fields.alternatives(annotation)]
    return _union(found) if all(found) else frozenset()


def constant_kinds(value: object) -> frozenset[str]:
    return _kinds_of_one(None if value is None else type(value))


def boolean_problem(annotation: object) -> str | None:
    if kinds(annotation) and kinds(annotation) <= {BOOLEAN, NULL}:
        return None
    return f"is {type_rules.shown(annotation)}, not a boolean; compare it with something"


def constant(value: object) -> graph.Constant | str:
    """The JSON form of a value beside a reference, or why it has none."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return graph.Constant(value.isoformat())
    if isinstance(value, uuid.UUID):
        return graph.Constant(str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return f"cannot be compared with {value}: JSON has no such number"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return f"cannot be compared with {value}: Conductor compares whole numbers up to 2^53"
    if value is None or isinstance(value, str | int | float):
        return graph.Constant(value)
    return f"cannot be compared with {value!r}; compare numbers, texts, booleans, dates or None"


def problem(comparison: Comparison, left: graph.Reference, right: graph.Reference | graph.Constant, given: object) -> str | None:
    """Why the comparison is refused; `{other}` stands for the right side."""
    ours = kinds(left.annotation)
    theirs = kinds(right.annotation) if isinstance(right, graph.Reference) else constant_kinds(given)
    if not ours:
        return _unsupported(left.annotation)
    if isinstance(right, graph.Reference) and not theirs:
        return f"cannot be compared with {{other}}, which {_unsupported(right.annotation)}"
    shown = type_rules.shown(left.annotation).replace("{", "{{").replace("}", "}}")
    if comparison in {Comparison.EQUAL, Comparison.NOT_EQUAL}:
        possible = ANY in ours | theirs or ours & theirs
        return None if possible else f"is {shown}, which never equals {{other}}"
    if any(ours | theirs <= group for group in ({BOOLEAN, NUMBER}, {TEXT}, {DATE})):
        return None
    if NULL in ours | theirs:
        return f"is {shown}: it has no order with {{other}}, since one of them may be None"
    return f"is {shown}: it has no order with {{other}}"


def _unsupported(annotation: object) -> str:
    shown = type_rules.shown(annotation).replace("{", "{{").replace("}", "}}")
    for one in model_fields.alternatives(annotation):
        if isinstance(one, type) and issubclass(one, _INEXACT):
            return f"is {shown}, which has several forms in JSON and cannot be compared; let a task return a boolean or a number"
    return f"is {shown}, which cannot be compared; compare one of its fields, or let a task return a number, text or boolean"


def _kinds_of_one(one: Any) -> frozenset[str]:
    if one is None:
        return frozenset({NULL})
    if one is Any:
        return frozenset({ANY})
    if typing.get_origin(one) is typing.Literal:
        return _union([constant_kinds(value) for value in typing.get_args(one)])
    return frozenset({kind}) if isinstance(one, type) and (kind := _kind_of_class(one)) else frozenset()


def _union(found: list[frozenset[str]]) -> frozenset[str]:
    return frozenset(kind for kinds_of_one in found for kind in kinds_of_one)


def _kind_of_class(one: type) -> str | None:
    if issubclass(one, bool):
        return BOOLEAN
    if issubclass(one, int | float):
        return NUMBER
    if issubclass(one, str | uuid.UUID):
        return TEXT
    if issubclass(one, Enum):
        return f"{one.__module__}.{one.__qualname__}"  # equal to its own members only, without an order
    if issubclass(one, dt.date) and not issubclass(one, dt.datetime):
        return DATE
    return None
