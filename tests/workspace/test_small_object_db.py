"""The database of small contents: shared, bounded, and verified on every read."""

import functools
import multiprocessing
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import workspaces

from perago.workspace.cache import small_object_db


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[small_object_db.SmallObjectDb]:
    made = small_object_db.SmallObjectDb(str(tmp_path))
    yield made
    made.flush()


def put(box: small_object_db.SmallObjectDb, *contents: bytes) -> None:
    for data in contents:
        box.put(workspaces.md5(data), data)


def take(box: small_object_db.SmallObjectDb, data: bytes) -> bytes | None:
    return box.get_many([workspaces.md5(data)]).get(workspaces.md5(data))


def total(box: small_object_db.SmallObjectDb) -> int:
    return sum(item.cost for item in box.evictable())


@pytest.mark.parametrize("flushed", [False, True])
def test_what_was_put_in_is_there_for_oneself_and_once_flushed_for_others(
    opened: small_object_db.SmallObjectDb, tmp_path: Path, flushed: bool
) -> None:
    put(opened, b"one", b"", b"two")
    if flushed:
        opened.flush()
    assert [take(opened, data) for data in (b"one", b"", b"two")] == [b"one", b"", b"two"]
    assert take(opened, b"three") is None
    other = small_object_db.SmallObjectDb(str(tmp_path))
    assert take(other, b"one") == (b"one" if flushed else None)
    other.flush()


def test_much_is_written_before_anybody_flushes(opened: small_object_db.SmallObjectDb, tmp_path: Path) -> None:
    put(opened, *(os.urandom(small_object_db.MAX_SIZE) for _ in range(40)))
    other = small_object_db.SmallObjectDb(str(tmp_path))
    assert total(other) > 30 * small_object_db.MAX_SIZE
    other.flush()


def test_no_statement_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch to WAL does, unless that is turned off before."""
    levels: list[int] = []

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if not sql.startswith("PRAGMA synchronous"):
                levels.append(super().execute("PRAGMA synchronous").fetchone()[0])
            return super().execute(sql, parameters)

    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Watched))
    made = small_object_db.SmallObjectDb(str(tmp_path))
    made.put("00" * 16, b"x")
    made.flush()
    assert len(levels) > 1
    assert set(levels) == {0}


def test_wrong_bytes_are_a_miss_and_make_room_for_the_right_ones(opened: small_object_db.SmallObjectDb, tmp_path: Path) -> None:
    put(opened, b"right", b"other")
    opened.flush()
    harm = sqlite3.connect(tmp_path / "small.db", isolation_level=None)
    harm.execute("UPDATE small SET data = ? WHERE data = ?", (b"wrong", b"right"))
    harm.close()
    assert opened.get_many([workspaces.md5(b"right"), workspaces.md5(b"other")]) == {workspaces.md5(b"other"): b"other"}
    assert take(opened, b"right") is None
    put(opened, b"right")
    opened.flush()
    assert take(opened, b"right") == b"right"


@pytest.mark.parametrize("damage", [b"not a database at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database_is_thrown_away_and_made_anew(
    opened: small_object_db.SmallObjectDb, tmp_path: Path, damage: bytes
) -> None:
    put(opened, b"one")
    opened.flush()
    (tmp_path / "small.db").write_bytes(damage)
    assert take(opened, b"one") is None
    put(opened, b"one")
    opened.flush()
    assert take(opened, b"one") == b"one"


def test_a_database_that_stays_locked_is_left_alone(
    opened: small_object_db.SmallObjectDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(opened, b"one")
    opened.flush()
    monkeypatch.setattr(small_object_db, "_BUSY_SECONDS", 0.01)
    rival = sqlite3.connect(tmp_path / "small.db", isolation_level=None)
    rival.execute("BEGIN EXCLUSIVE")
    put(opened, b"two")
    opened.flush()
    rival.execute("ROLLBACK")
    rival.close()
    assert take(opened, b"one") is None
    fresh = small_object_db.SmallObjectDb(str(tmp_path))
    assert take(fresh, b"one") == b"one"
    fresh.flush()


def test_no_place_for_a_database_is_a_miss(tmp_path: Path) -> None:
    nowhere = small_object_db.SmallObjectDb(str(tmp_path / "missing"))
    put(nowhere, b"one")
    nowhere.flush()
    assert take(nowhere, b"one") is None
    assert nowhere.evictable() == []


def test_the_hour_of_last_use_decides_what_is_dropped_first(
    opened: small_object_db.SmallObjectDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour, data in enumerate((b"first", b"second", b"third")):
        monkeypatch.setattr(small_object_db, "_this_hour", lambda hour=hour: hour)
        put(opened, data)
        opened.flush()
    assert take(opened, b"first") == b"first"
    opened.flush()
    oldest = min(opened.evictable(), key=lambda item: item.used_ns)
    assert oldest.free(1) == small_object_db.cost(6)
    assert [take(opened, data) for data in (b"first", b"second", b"third")] == [b"first", None, b"third"]


def test_dropping_frees_no_more_than_it_must_and_gives_the_disk_back(
    opened: small_object_db.SmallObjectDb, tmp_path: Path
) -> None:
    put(opened, *(os.urandom(60_000) for _ in range(100)))
    opened.flush()
    before, size = total(opened), (tmp_path / "small.db").stat().st_size
    (share,) = opened.evictable()
    freed = share.free(3_000_000)
    assert 3_000_000 <= freed < 3_000_000 + small_object_db.cost(60_000)
    assert total(opened) == before - freed
    opened.flush()
    assert (tmp_path / "small.db").stat().st_size < size - 2_500_000


def _child(root: Path, number: int) -> None:
    box = small_object_db.SmallObjectDb(str(root))
    for step in range(300):
        put(box, b"%d" % (step + number * 150) * 100)
        assert take(box, b"%d" % step * 100) in (None, b"%d" % step * 100)
    box.flush()


@pytest.mark.slow
def test_several_processes_fill_one_database_from_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_child, args=(tmp_path, number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    box = small_object_db.SmallObjectDb(str(tmp_path))
    assert len([n for n in range(750) if take(box, b"%d" % n * 100)]) == 750
    box.flush()


def test_a_fork_leaves_both_sides_with_a_working_drawer(opened: small_object_db.SmallObjectDb) -> None:
    put(opened, b"before")
    opened.flush()
    assert take(opened, b"before") == b"before"
    if not (pid := os.fork()):
        os._exit(0 if take(opened, b"before") == b"before" else 1)
    assert os.waitpid(pid, 0)[1] == 0
    put(opened, b"after")
    opened.flush()
    assert take(opened, b"after") == b"after"
