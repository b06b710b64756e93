"""Requests to lakeFS that are sent side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 16

S = TypeVar("S")
T = TypeVar("T")


def each(action: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """The results, in order. After an error nothing more is begun, and it is raised when what was begun has ended."""
    if len(items) <= 1:
        return [action(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(THREADS, len(items)), thread_name_prefix="lanes") as pool:
        begun = [pool.submit(action, item) for item in items]
        try:
            return [one.result() for one in begun]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
