"""Work that an attempt begins before it needs the result, so that one server works while it waits for the other."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """Call one of both: `result` waits for the work and returns its result or raises its error; `discard` only waits."""

    result: Callable[[], T]
    discard: Callable[[], object]


class Begin(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Begun[T]: ...


def when_needed(work: Callable[[], T], /) -> Begun[T]:
    """Do the work when its result is needed, so that there is one request at a time."""
    return Begun(functools.cache(work), lambda: None)


def in_thread(work: Callable[[], T], /) -> Begun[T]:
    """Do the work in a thread, which does not keep the process from ending."""
    result = Future[T]()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised where the result is needed
            result.set_exception(error)

    threading.Thread(target=run, name="perago-overlap", daemon=True).start()
    return Begun(result.result, result.exception)
