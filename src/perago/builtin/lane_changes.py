"""What lanes changed compared with the fork's commit: streams in path order, their union, and what contradicts it.

All commits are immutable, so a lane's changes can be read as often as needed. The first of them are kept in memory, within
a bound for all lanes together: then most joins read everything once.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from perago.lake.port import PAGE, ObjectDifference
from perago.model import CommitId, ObjectPath

KEPT = 100_000
"""Changes kept in memory, for all lanes together."""
_LEAST_PAGE = 100

T = TypeVar("T")
Read = Callable[[CommitId, int], Iterable[ObjectDifference]]
"""Reads what a commit changed, with this many changes per request."""


@dataclass(frozen=True, slots=True)
class LaneChanges:
    """One lane. `kept` are its first changes, or all."""

    name: str
    commit: CommitId
    kept: Sequence[ObjectDifference]
    is_complete: bool
    page: int

    @property
    def size(self) -> int:
        """The bytes of the kept changes that would have to be copied."""
        return sum(one.size for one in self.kept)


@dataclass(frozen=True, slots=True)
class Change:
    """One object of the union: what it becomes, and a lane that made it so."""

    wanted: ObjectDifference
    lane: LaneChanges


@dataclass(slots=True)
class Conflicts:
    """Objects that two lanes changed differently: how many there are, and the first of them with the two lanes."""

    shown: list[tuple[ObjectPath, str, str]] = field(default_factory=list[tuple[ObjectPath, str, str]])
    count: int = 0

    SHOWN = 20

    def add(self, path: ObjectPath, one: str, other: str) -> None:
        self.count += 1
        if len(self.shown) < self.SHOWN:
            self.shown.append((path, one, other))

    def __str__(self) -> str:
        more = f" and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
        pairs = {(one, other) for _, one, other in self.shown}
        objects = f"{self.count} object{'' if self.count == 1 else 's'} differently"
        if len(pairs) == 1:
            ((one, other),) = pairs
            return f"lanes {one} and {other} changed {objects}: {', '.join(repr(path) for path, _, _ in self.shown)}{more}"
        listed = ", ".join(f"{path!r} (lanes {one} and {other})" for path, one, other in self.shown)
        return f"lanes changed {objects}: {listed}{more}"


def page_size(lanes: int) -> int:
    return max(_LEAST_PAGE, min(PAGE, KEPT // max(1, lanes)))


def first_changes(name: str, commit: CommitId, read: Read, page: int) -> LaneChanges:
    """The lane with its first changes, by one request, or by two where there may be more."""
    stream = iter(read(commit, page))
    kept = list(itertools.islice(stream, page))
    return LaneChanges(name, commit, kept, is_complete=next(stream, None) is None, page=page)


def union(lanes: Sequence[LaneChanges], read: Read, pool: Executor, conflicts: Conflicts | None = None) -> Iterator[Change]:
    """Every object that a lane changed, in path order. One that several changed differently goes to `conflicts`."""
    streams = [_tagged(lane, read, pool) for lane in lanes]
    merged = heapq.merge(*streams, key=lambda change: change.wanted.path)
    for path, group in itertools.groupby(merged, key=lambda change: change.wanted.path):
        first, *others = group
        other = next((one for one in others if not is_same(one.wanted, first.wanted)), None)
        if other is not None and conflicts is not None:
            conflicts.add(path, first.lane.name, other.lane.name)
        yield first


def contradictions(wanted: Iterable[Change], found: Iterable[ObjectDifference]) -> Iterator[Change | ObjectDifference]:
    """Where `found` is not what is wanted: the change that is missing, or the difference that has to be undone."""
    changes, differences = iter(wanted), iter(found)
    change, difference = next(changes, None), next(differences, None)
    while change is not None or difference is not None:
        if difference is None or (change is not None and change.wanted.path < difference.path):
            assert change is not None  # noqa: S101  one of the two is there
            yield change
            change = next(changes, None)
        elif change is None or difference.path < change.wanted.path:
            yield difference
            difference = next(differences, None)
        else:
            if not is_same(change.wanted, difference):
                yield change
            change, difference = next(changes, None), next(differences, None)


def is_same(one: ObjectDifference, other: ObjectDifference) -> bool:
    """Whether the object becomes the same: all that lakeFS regards as its identity. Of a removed one the rest is empty."""
    return one == other


def read_ahead(stream: Iterable[T], pool: Executor, chunk: int) -> Iterator[T]:
    """The stream, whose next chunk is read in another thread while one is used."""
    source = iter(stream)
    coming = pool.submit(lambda: list(itertools.islice(source, chunk)))
    while present := coming.result():
        coming = pool.submit(lambda: list(itertools.islice(source, chunk)))
        yield from present


def _tagged(lane: LaneChanges, read: Read, pool: Executor) -> Iterator[Change]:
    """The lane's changes; those that are not in memory are read ahead."""
    stream = lane.kept if lane.is_complete else read_ahead(read(lane.commit, lane.page), pool, lane.page)
    return (Change(one, lane) for one in stream)
