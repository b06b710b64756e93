"""Adds `flow.wait`."""

import datetime as dt

from perago.declare.problems import bounded
from perago.pipelines import graph
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.values import Converter


def wait(declaration: Declaration, seconds: object, until: object, ref: object) -> None:
    name = declaration.numbered_ref(ref, "wait")
    where = f"wait {name}"
    if (seconds is None) == (until is None):
        declaration.problem(where, "takes seconds=... or until=..., one of the two")
        return
    if seconds is not None:
        for wrong in bounded("seconds", seconds, least=1):
            declaration.problem(where, str(wrong))
        declaration.add(graph.Wait(name, seconds=seconds if isinstance(seconds, int) else 1))
        return
    moment = Converter(declaration).convert(until, dt.datetime, f"{where}, until")
    if isinstance(until, dt.datetime) and until.tzinfo is None:
        declaration.problem(where, "until must have a time zone, such as datetime(..., tzinfo=UTC)")
    declaration.add(graph.Wait(name, until=moment))
