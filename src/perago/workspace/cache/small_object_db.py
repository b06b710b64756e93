"""Contents of small files in one SQLite database, because creating a file for each would cost more than its bytes.

Every row has a checksum, so a damaged row is a miss and never returns a wrong byte; writes do not wait for the disk.
"""

import functools
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from perago.workspace.cache import eviction

T = TypeVar("T")

MAX_SIZE = 64 * 1024
_NAME = "small.db"
_WRITE_BYTES = 1 << 20
"""Bytes that are collected and written in one transaction."""
_BUSY_SECONDS = 5.0
MAX_KEYS = 64
_SELECT = f"SELECT md5, id, used, crc, data FROM small WHERE md5 IN ({', '.join('?' * MAX_KEYS)})"  # noqa: S608  no input
_HOUR = 3600
_OVERHEAD = 128
"""Approximate bytes of a row besides its data."""
_SETUP = (
    # First, because the switch to WAL would otherwise wait for the disk each time that the database is opened.
    "PRAGMA synchronous = OFF",
    "PRAGMA page_size = 8192",
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "CREATE TABLE IF NOT EXISTS small (id INTEGER PRIMARY KEY, md5 BLOB UNIQUE, used INTEGER, crc INTEGER, data BLOB)",
    "CREATE INDEX IF NOT EXISTS small_used ON small (used, length(data))",
)


class SmallObjectDb:
    """Safe for use by several threads and processes. If the database fails, every lookup is a miss; a damaged one is deleted."""

    def __init__(self, root: str) -> None:
        self._path = f"{root}/{_NAME}"
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None
        self._owner = 0
        self._works = True
        self._new: dict[bytes, bytes] = {}
        self._new_bytes = 0
        self._used_again: list[tuple[int]] = []

    def get_many(self, md5s: Collection[str]) -> dict[str, bytes]:
        """The stored contents among at most `MAX_KEYS`, by MD5."""
        keys = [bytes.fromhex(md5) for md5 in md5s]
        with self._lock:
            found = {key: data for key in keys if (data := self._new.get(key)) is not None}
            if len(found) < len(keys):
                found |= self._execute(lambda database: self._select(database, keys), {})
        return {key.hex(): data for key, data in found.items()}

    def put(self, md5: str, data: bytes) -> None:
        """Store a content; it is written together with others, at the latest by `flush`."""
        with self._lock:
            self._new[bytes.fromhex(md5)] = data
            self._new_bytes += len(data)
            if self._new_bytes >= _WRITE_BYTES:
                self._write()

    def flush(self) -> None:
        """Write what was collected and close the file."""
        with self._lock:
            if self._new or self._used_again:
                self._write()
            self._close()

    def evictable(self) -> list[eviction.Evictable]:
        """All rows, grouped by the hour of their last use."""
        query = f"SELECT used, sum(length(data) + {_OVERHEAD}) FROM small GROUP BY used"  # noqa: S608  no input
        with self._lock:
            rows = self._execute(lambda database: database.execute(query).fetchall(), [])
        return [eviction.Evictable(hour * _HOUR * 10**9, size, functools.partial(self.remove, hour)) for hour, size in rows]

    def remove(self, hour: int, size: int) -> int:
        """Remove at least `size` bytes of what was last used in that hour, or all of it; returns how many."""
        with self._lock:
            return self._execute(lambda database: _remove(database, hour, size), 0)

    def _select(self, database: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        padded = [*keys, *[keys[-1]] * (MAX_KEYS - len(keys))]
        hour = _this_hour()
        for key, number, used, crc, data in database.execute(_SELECT, padded).fetchall():
            if zlib.crc32(data) != crc:
                database.execute("DELETE FROM small WHERE id = ?", (number,))
                continue
            found[key] = data
            if used < hour:
                self._used_again.append((number,))
        return found

    def _write(self) -> None:
        hour = _this_hour()
        rows = [(md5, hour, zlib.crc32(data), data) for md5, data in self._new.items()]
        used = [(hour, number) for (number,) in self._used_again]
        self._new, self._new_bytes, self._used_again = {}, 0, []

        def write(database: sqlite3.Connection) -> None:
            with _transaction(database):
                database.executemany("INSERT OR IGNORE INTO small (md5, used, crc, data) VALUES (?, ?, ?, ?)", rows)
                database.executemany("UPDATE small SET used = ? WHERE id = ?", used)

        self._execute(write, None)

    def _execute(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Returns `otherwise` on an error. A database that is busy too long, full or inaccessible is not used again."""
        if not self._works:
            return otherwise
        try:
            return action(self._connected())
        except sqlite3.OperationalError:
            self._works = False
            self._close()
        except sqlite3.DatabaseError:
            self._close()
            for suffix in ("", "-wal", "-shm"):
                eviction.unlink(self._path + suffix)
        return otherwise

    def _connected(self) -> sqlite3.Connection:
        """A connection must not be used after a fork, so the child opens its own and leaves the parent's alone."""
        if self._open is None or self._owner != os.getpid():
            self._open = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._owner = os.getpid()
            for statement in _SETUP:
                self._open.execute(statement)
        return self._open

    def _close(self) -> None:
        database, self._open = self._open, None
        if database is not None and self._owner == os.getpid():
            database.close()


def cost(size: int) -> int:
    """Approximate bytes in the database of a content of that size."""
    return size + _OVERHEAD


def _remove(database: sqlite3.Connection, hour: int, size: int) -> int:
    freed, victims = 0, list[tuple[int]]()
    for number, length in database.execute("SELECT id, length(data) FROM small WHERE used = ? ORDER BY id", (hour,)):
        if freed >= size:
            break
        victims.append((number,))
        freed += cost(length)
    with _transaction(database):
        database.executemany("DELETE FROM small WHERE id = ?", victims)
    database.executescript("PRAGMA incremental_vacuum")  # `execute` would stop after one page
    return freed


@contextmanager
def _transaction(database: sqlite3.Connection) -> Generator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.rollback()
        raise
    database.execute("COMMIT")


def _this_hour() -> int:
    return int(time.time()) // _HOUR
