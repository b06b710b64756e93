"""Contents of small files in one database instead of a file each: making a file costs more than all that is in it.

Bytes are hashed each time they are taken out, so damage of any kind is a miss and never a wrong byte; nothing waits for the disk.
"""

import functools
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from perago.workspace import eviction

T = TypeVar("T")

LARGEST = 64 * 1024
_NAME = "small.db"
_TOGETHER = 1 << 20
"""Bytes that are written in one transaction."""
_BUSY_SECONDS = 5.0
_HOUR = 3600
_OVERHEAD = 128
"""Bytes that a row takes besides its data."""
_SETUP = (
    "PRAGMA page_size = 8192",
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = OFF",
    "CREATE TABLE IF NOT EXISTS small (id INTEGER PRIMARY KEY, md5 BLOB UNIQUE, used INTEGER, data BLOB)",
    "CREATE INDEX IF NOT EXISTS small_used ON small (used, length(data))",
)


class Drawer:
    """Safe between threads and processes. While the database does not work everything is a miss; a damaged one is thrown away."""

    def __init__(self, root: str) -> None:
        self._path = f"{root}/{_NAME}"
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None
        self._owner = 0
        self._works = True
        self._new: dict[bytes, bytes] = {}
        self._new_bytes = 0
        self._used_again: list[tuple[int]] = []

    def take(self, md5: str) -> bytes | None:
        key = bytes.fromhex(md5)
        with self._lock:
            data = self._new.get(key)
            if data is None:
                data = self._ask(lambda database: self._stored(database, key), None)
            if data is None or hashlib.md5(data, usedforsecurity=False).digest() == key:
                return data
            self._ask(lambda database: database.execute("DELETE FROM small WHERE md5 = ?", (key,)), None)
            return None

    def put(self, md5: str, data: bytes) -> None:
        """Written with many others, at the latest by `flush`."""
        with self._lock:
            self._new[bytes.fromhex(md5)] = data
            self._new_bytes += len(data)
            if self._new_bytes >= _TOGETHER:
                self._write()

    def flush(self) -> None:
        """Write what is left and let go of the file."""
        with self._lock:
            if self._new or self._used_again:
                self._write()
            self._close()

    def held(self) -> list[eviction.Held]:
        """Everything, by the hour of its last use."""
        query = f"SELECT used, sum(length(data) + {_OVERHEAD}) FROM small GROUP BY used"  # noqa: S608  a number of ours
        with self._lock:
            rows = self._ask(lambda database: database.execute(query).fetchall(), [])
        return [eviction.Held(hour * _HOUR * 10**9, size, functools.partial(self.drop, hour)) for hour, size in rows]

    def drop(self, hour: int, size: int) -> int:
        """At least `size` bytes of what was last used in that hour, or all of it; how many it were."""
        with self._lock:
            return self._ask(lambda database: _drop(database, hour, size), 0)

    def _stored(self, database: sqlite3.Connection, key: bytes) -> bytes | None:
        row = database.execute("SELECT id, used, data FROM small WHERE md5 = ?", (key,)).fetchone()
        if row is None:
            return None
        number, used, data = row
        if used < _this_hour():
            self._used_again.append((number,))
        return data

    def _write(self) -> None:
        hour = _this_hour()
        rows = [(md5, hour, data) for md5, data in self._new.items()]
        used = [(hour, number) for (number,) in self._used_again]
        self._new, self._new_bytes, self._used_again = {}, 0, []

        def write(database: sqlite3.Connection) -> None:
            with _transaction(database):
                database.executemany("INSERT OR IGNORE INTO small (md5, used, data) VALUES (?, ?, ?)", rows)
                database.executemany("UPDATE small SET used = ? WHERE id = ?", used)

        self._ask(write, None)

    def _ask(self, action: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """A database that is busy for long, full, or in an impossible place is left alone from then on."""
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
        """A connection does not survive a fork; the child's copy is left alone."""
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
    """What content of that size takes, more or less; the same for everyone who counts."""
    return size + _OVERHEAD


def _drop(database: sqlite3.Connection, hour: int, size: int) -> int:
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
