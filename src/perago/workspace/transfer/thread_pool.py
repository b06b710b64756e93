"""A thread pool for transfers: separate limits for light and heavy items, and the first error is raised to the caller."""

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from perago.workspace.cache import small_object_db

T = TypeVar("T")

TICK_SECONDS = 0.1
HEAVY = 8 << 20
"""Files above this size are transferred by the heavy threads."""
BATCH = 16
"""Requests for small files that are pipelined on one connection."""


class HasSize(Protocol):
    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=HasSize)


def batches(files: Sequence[S], threads: int) -> Iterator[Sequence[S]]:
    """Groups of small files, small enough that every thread gets one; larger files one by one."""
    small: list[S] = []
    batch_size = max(1, min(BATCH, len(files) // threads))
    for file in files:
        if file.size > small_object_db.MAX_SIZE:
            yield [file]
            continue
        small.append(file)
        if len(small) == batch_size:
            yield small
            small = []
    if small:
        yield small


class TransferPool(Generic[T]):
    """Threads start when there is work for them and end with the `with` block.

    After an error, in an item or in the block, queued items are dropped and running ones are waited for, so that nothing writes
    into a directory that is being removed.
    """

    def __init__(self, work: Callable[[T], None], *, light: int, heavy: int, name: str) -> None:
        self._work = work
        self._lanes = {False: _Lane[T](light), True: _Lane[T](heavy)}
        self._name = name
        self._change = threading.Condition()
        self._pending = 0
        self._awaited = 0
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            with self._change:
                self._error = self._error or error
        for lane in self._lanes.values():
            lane.close()

    def submit(self, item: T, *, heavy: bool = False) -> None:
        lane = self._lanes[heavy]
        with self._change:
            self._pending += 1
        lane.queue.put(item)
        lane.grow(self._run, self._name)

    def wait_below(self, count: int, tick: Callable[[], None]) -> None:
        """Wait until fewer than `count` items are unfinished, calling `tick` meanwhile; raises the first error of an item."""
        while True:
            with self._change:
                self._awaited = count
                if self._error is None and self._pending >= count:
                    self._change.wait(TICK_SECONDS)
                if self._error is not None:
                    raise self._error
                if self._pending < count:
                    return
            tick()

    def _run(self, lane: "_Lane[T]") -> None:
        while (item := lane.queue.get()) is not None:
            lane.busy()
            if self._error is None:
                self._process(item)
            lane.idle()
            with self._change:
                self._pending -= 1
                if self._pending < self._awaited or self._error is not None:
                    self._change.notify()

    def _process(self, item: T) -> None:
        try:
            self._work(item)
        except BaseException as error:  # noqa: BLE001 (the waiting thread raises it)
            with self._change:
                self._error = self._error or error


class _Lane(Generic[T]):
    """A queue and the threads that process it."""

    def __init__(self, limit: int) -> None:
        self.queue: SimpleQueue[T | None] = SimpleQueue()
        self._limit = limit
        self._threads: list[threading.Thread] = []
        self._working = 0
        self._lock = threading.Lock()

    def grow(self, run: Callable[["_Lane[T]"], None], name: str) -> None:
        """Start one more thread if all are busy and the limit allows it."""
        if len(self._threads) < self._limit and self._working + self.queue.qsize() > len(self._threads):
            thread = threading.Thread(target=run, args=(self,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def busy(self) -> None:
        with self._lock:
            self._working += 1

    def idle(self) -> None:
        with self._lock:
            self._working -= 1

    def close(self) -> None:
        for _ in self._threads:
            self.queue.put(None)
        for thread in self._threads:
            thread.join()
