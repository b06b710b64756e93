"""Remove the least recently used contents of the cache until the rest is within the limit."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

KEEP = 0.9
"""Share of the limit that an eviction leaves, so that the next file does not cause another one."""
_BLOCK = 4096
_STALE_SECONDS = 3600


def cost(size: int) -> int:
    """Approximate bytes on disk of a file of that size."""
    return (size // _BLOCK + 1) * _BLOCK


def unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 (strings throughout: see file_copy)


class Evictable(NamedTuple):
    """A part of the cache that can be removed."""

    used_ns: int
    cost: int
    free: Callable[[int], int]
    """Removes at least that many bytes, or everything; returns the number of bytes removed."""


def evict(root: str, limit: int, others: Iterable[Evictable] = ()) -> int:
    """Returns the bytes that remain. `others` are contents that are not files in the cache's directories."""
    _remove_stale(f"{root}/new")
    items = [*_files(f"{root}/objects"), *_files(f"{root}/listings"), *others]
    total = sum(item.cost for item in items)
    if total <= limit:
        return total
    keep = int(limit * KEEP)
    for item in sorted(items, key=lambda item: item.used_ns):
        if total <= keep:
            break
        total -= item.free(total - keep)
    return total


def _files(directory: str) -> Iterator[Evictable]:
    for shard in _scan(directory):
        for entry in _scan(shard.path):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield _file(entry.path, status)


def _file(path: str, status: os.stat_result) -> Evictable:
    size = cost(status.st_size)

    def free(_: int) -> int:
        unlink(path)
        return size

    return Evictable(status.st_atime_ns, size, free)


def _remove_stale(directory: str) -> None:
    oldest = time.time() - _STALE_SECONDS
    for entry in _scan(directory):
        with contextlib.suppress(FileNotFoundError):
            if entry.stat(follow_symlinks=False).st_ctime < oldest:
                unlink(entry.path)


def _scan(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
