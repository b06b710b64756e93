"""An exception of a task comes in; its traceback leaves, without the frames that are Perago's own."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import perago

_OURS = f"{Path(perago.__file__).parent}/"


def of(error: BaseException) -> list[str]:
    """As Python prints it, chained exceptions too."""
    told = traceback.TracebackException.from_exception(error)
    for one in _chain(told):
        one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if not frame.filename.startswith(_OURS)])
    return "".join(told.format()).splitlines()


def _chain(told: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    if told is None:
        return
    yield told
    for member in told.exceptions or []:
        yield from _chain(member)
    yield from _chain(told.__cause__)
    yield from _chain(told.__context__)
