"""Tracebacks of a task's own exceptions, without the frames of Perago."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import perago

_OWN_PREFIX = f"{Path(perago.__file__).parent}/"


def lines(error: BaseException) -> list[str]:
    """As Python prints it, with chained exceptions."""
    report = traceback.TracebackException.from_exception(error)
    for part in _chain(report):
        kept = [frame for frame in part.stack if not frame.filename.startswith(_OWN_PREFIX)]
        part.stack = traceback.StackSummary.from_list(kept)
    return "".join(report.format()).splitlines()


def _chain(report: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    if report is None:
        return
    yield report
    for member in report.exceptions or []:
        yield from _chain(member)
    yield from _chain(report.__cause__)
    yield from _chain(report.__context__)
