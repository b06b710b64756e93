"""The cache's directories in, the least recently used files out of them, until the rest is small enough."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

KEEP = 0.9
"""Share of the limit that an eviction leaves, so that the next file does not evict again."""
_BLOCK = 4096
_STALE_SECONDS = 3600


def cost(size: int) -> int:
    """What a file of that size takes on disk, more or less; the same for everyone who counts."""
    return (size // _BLOCK + 1) * _BLOCK


def unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108 (strings throughout: see copying)


class Held(NamedTuple):
    """Something that can be thrown out of the cache."""

    used_ns: int
    cost: int
    free: Callable[[int], int]
    """Throws out at least so many bytes of it if there are as many; how many it were."""


def evict(root: str, limit: int, others: Iterable[Held] = ()) -> int:
    """Bytes that are left. `others` is what does not lie in the cache's directories as a file of its own."""
    _drop_stale(f"{root}/new")
    held = [*_held(f"{root}/objects"), *_held(f"{root}/listings"), *others]
    total = sum(item.cost for item in held)
    if total <= limit:
        return total
    keep = int(limit * KEEP)
    for item in sorted(held, key=lambda item: item.used_ns):
        if total <= keep:
            break
        total -= item.free(total - keep)
    return total


def _held(directory: str) -> Iterator[Held]:
    for shard in _scan(directory):
        for entry in _scan(shard.path):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield _file(entry.path, status)


def _file(path: str, status: os.stat_result) -> Held:
    size = cost(status.st_size)

    def free(_: int) -> int:
        unlink(path)
        return size

    return Held(status.st_atime_ns, size, free)


def _drop_stale(directory: str) -> None:
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
