import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import FilePath
from perago.workspace.cache import content_cache, eviction, listing_cache, small_object_db
from perago.workspace.transfer import file_copy

ONE = b"one" * 30_000
LARGE = small_object_db.MAX_SIZE + 1
BLOCK = eviction.cost(LARGE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[content_cache.ContentCache]:
    made = content_cache.ContentCache(tmp_path / "cache")
    yield made
    made.flush()


def insert(store: content_cache.ContentCache, data: bytes, source: Path) -> Path:
    source.write_bytes(data)
    store.insert(str(source), workspaces.md5(data), len(data))
    return entry(store, data)


def entry(store: content_cache.ContentCache, data: bytes) -> Path:
    return store.root / "objects" / workspaces.md5(data)[:2] / f"{workspaces.md5(data)}-{len(data)}"


def restore(store: content_cache.ContentCache, data: bytes, target: Path) -> bytes | None:
    status = store.restore(workspaces.md5(data), len(data), str(target))
    assert (status is not None) == target.exists()
    return target.read_bytes() if status else None


@pytest.mark.parametrize("size", [0, 1, small_object_db.MAX_SIZE, LARGE, file_copy.SMALL, file_copy.SMALL + 1, 5 << 20])
def test_content_comes_back_as_it_went_in(store: content_cache.ContentCache, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    insert(store, data, tmp_path / "source")
    assert restore(store, data, tmp_path / "target") == data
    assert restore(store, data + b"x", tmp_path / "other") is None


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_editing_a_restored_copy_or_the_source_in_place_never_changes_the_cache(
    store: content_cache.ContentCache, tmp_path: Path, size: int
) -> None:
    data = os.urandom(size)
    insert(store, data, tmp_path / "source")
    restore(store, data, tmp_path / "target")
    for path in (tmp_path / "source", tmp_path / "target"):
        with path.open("r+b") as file:
            file.write(b"edited")
    assert restore(store, data, tmp_path / "again") == data


def test_a_limit_of_zero_turns_the_cache_off_and_makes_no_directory(tmp_path: Path) -> None:
    store = content_cache.ContentCache(tmp_path / "cache", 0)
    insert(store, ONE, tmp_path / "source")
    assert not store.is_enabled
    assert restore(store, ONE, tmp_path / "target") is None
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("written", [b"", b"one", ONE])
def test_what_a_crashed_writer_left_is_used_only_if_it_is_whole(
    store: content_cache.ContentCache, tmp_path: Path, written: bytes
) -> None:
    entry(store, ONE).parent.mkdir()
    entry(store, ONE).write_bytes(written)
    assert restore(store, ONE, tmp_path / "target") == (ONE if written == ONE else None)
    insert(store, ONE, tmp_path / "source")
    assert restore(store, ONE, tmp_path / "again") == ONE


@pytest.mark.parametrize("damage", [b"ONE" * 30_000, b"one" * 29_999, b"one" * 30_001, b""])
def test_a_damaged_entry_is_a_miss_and_heals(store: content_cache.ContentCache, tmp_path: Path, damage: bytes) -> None:
    held = insert(store, ONE, tmp_path / "source")
    held.write_bytes(damage)
    assert restore(store, ONE, tmp_path / "target") is None
    assert not held.exists()
    insert(store, ONE, tmp_path / "source")
    assert restore(store, ONE, tmp_path / "target") == ONE


def test_an_entry_that_was_only_touched_is_hashed_once_and_kept(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = insert(store, ONE, tmp_path / "source")
    held.touch()
    assert restore(store, ONE, tmp_path / "target") == ONE
    monkeypatch.setattr(content_cache, "_digest", None)
    assert restore(store, ONE, tmp_path / "again") == ONE


def test_entries_of_before_a_reboot_are_hashed_before_they_are_used(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = insert(store, ONE, tmp_path / "source")
    status = held.stat()
    with held.open("r+b") as file:
        file.write(b"\0\0\0")
    os.utime(held, ns=(status.st_atime_ns, status.st_mtime_ns))
    monkeypatch.setattr(content_cache, "_boot_stamp_ns", lambda: status.st_mtime_ns + 2 * 10**9)
    assert restore(content_cache.ContentCache(store.root), ONE, tmp_path / "target") is None


def test_a_source_that_is_not_what_it_should_be_is_not_kept(store: content_cache.ContentCache, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(ONE)
    store.insert(str(tmp_path / "source"), workspaces.md5(ONE), len(ONE) - 1)
    store.insert(
        str(tmp_path / "source"),
        workspaces.md5(b"other"),
        len(ONE),
        is_intact=lambda copy: content_cache.has_md5(copy, workspaces.md5(b"other")),
    )
    (tmp_path / "source").write_bytes(b"small")
    store.insert(str(tmp_path / "source"), workspaces.md5(b"small"), 4)
    store.insert(str(tmp_path / "source"), workspaces.md5(b"other"), 5)
    assert not store.contains(workspaces.md5(b"small"), 4)
    assert not store.contains(workspaces.md5(b"other"), 5)
    assert list((store.root / "objects").rglob("*-*")) == []
    assert list((store.root / "new").iterdir()) == []
    assert store.is_enabled


def test_a_cache_directory_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)
    assert not content_cache.ContentCache(tmp_path / "cache").is_enabled


def test_a_cache_that_is_a_file_is_off_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    store = content_cache.ContentCache(tmp_path / "cache")
    assert insert(store, ONE, tmp_path / "source") is not None
    assert restore(store, ONE, tmp_path / "target") is None


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = content_cache.ContentCache(tmp_path / "cache", 10 * BLOCK)
    contents = [b"%d" % n * LARGE for n in range(10)]
    for age, data in enumerate(contents):
        held = insert(store, data, tmp_path / "source")
        used = time.time_ns() - (100 - age) * 3600 * 10**9
        os.utime(held, ns=(used, held.stat().st_mtime_ns))
    assert restore(store, contents[0], tmp_path / "used") == contents[0]
    insert(store, b"m" * LARGE, tmp_path / "source")
    store.flush()
    gone = [data for data in contents if not store.contains(workspaces.md5(data), len(data))]
    assert gone == contents[1:3]
    assert store.contains(workspaces.md5(b"m" * LARGE), LARGE)


def test_the_bound_holds_however_much_passes_through(tmp_path: Path) -> None:
    store = content_cache.ContentCache(tmp_path / "cache", 64 * BLOCK)
    for n in range(100):
        insert(store, b"%03d" % n * LARGE, tmp_path / "source")
    store.flush()
    assert 0 < sum(eviction.cost(path.stat().st_size) for path in (store.root / "objects").rglob("*-*")) <= 64 * BLOCK
    assert store.contains(workspaces.md5(b"099" * LARGE), 3 * LARGE)


def test_what_is_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    store = content_cache.ContentCache(tmp_path / "cache", BLOCK)
    insert(store, b"x" * (BLOCK + 1), tmp_path / "source")
    assert list((store.root / "objects").rglob("*-*")) == []


def test_leftovers_of_crashed_writers_are_removed_when_they_are_old(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store.root / "new/torn").write_bytes(b"half")
    store.trim()
    assert (store.root / "new/torn").exists()
    monkeypatch.setattr(eviction, "_STALE_SECONDS", -1)
    store.trim()
    assert not (store.root / "new/torn").exists()


def test_a_full_disk_turns_insertion_off_and_fails_nothing(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> os.stat_result:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_copy, "copy", full)
    monkeypatch.setattr(content_cache, "_is_full", lambda _: True)
    insert(store, ONE, tmp_path / "source")
    assert not store.is_enabled


def hammer(root: Path, seed: int) -> None:
    store = content_cache.ContentCache(root / "cache", 20 * BLOCK)
    for step in range(150):
        number = (seed * 7 + step) % 60
        data = b"%02d" % number * (LARGE if number % 2 else 9_000)
        target = root / f"{seed}-{step}"
        if store.restore(workspaces.md5(data), len(data), str(target)) is not None:
            assert target.read_bytes() == data
            target.unlink()
        else:
            target.write_bytes(data)
            store.insert(str(target), workspaces.md5(data), len(data))
    store.flush()


def test_several_processes_insert_restore_and_evict_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=hammer, args=(tmp_path, seed)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert list((tmp_path / "cache/new").iterdir()) == []


def test_copying_goes_on_without_reflink_and_without_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "source").write_bytes(data)

    def refused(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(file_copy.fcntl, "ioctl", refused)
    monkeypatch.setattr(file_copy.os, "copy_file_range", refused)
    with (tmp_path / "source").open("rb") as source:
        file_copy.copy(source.fileno(), len(data), str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == data


def test_a_copy_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_bytes(b"x" * (file_copy.SMALL + 1))

    def broken(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_copy, "_kernel_copy", broken)
    with (tmp_path / "source").open("rb") as source, pytest.raises(OSError, match="Input/output"):
        file_copy.copy(source.fileno(), file_copy.SMALL + 1, str(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


# listings

KNOWN = [
    listing_cache.ListedFile(
        FilePath(f"d/{n}-\u00e9\n"), n, workspaces.md5(b"%d" % n), f"{n}-2", "text/plain", {"k": "v"} if n % 2 else {}
    )
    for n in range(2500)
]


def test_a_listing_comes_back_as_it_was_in_pages(store: content_cache.ContentCache) -> None:
    kept = listing_cache.ListingCache(store)
    kept.save("ab", KNOWN)
    pages = kept.load("ab")
    assert pages is not None
    assert [len(page) for page in pages] == [1000, 1000, 500]
    assert [known for page in kept.load("ab") or () for known in page] == KNOWN
    assert kept.load("abc") is None


def test_an_empty_listing_is_known_to_be_empty(store: content_cache.ContentCache) -> None:
    kept = listing_cache.ListingCache(store)
    kept.save("ab", [])
    assert list(kept.load("ab") or [["unknown"]]) == [[]]


@pytest.mark.parametrize("cut", [1, 40, 5000])
def test_a_damaged_listing_is_not_used(store: content_cache.ContentCache, cut: int) -> None:
    kept = listing_cache.ListingCache(store)
    kept.save("ab", KNOWN)
    path = store.root / "listings/ab/ab"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert kept.load("ab") is None
    path.write_bytes(whole[:100] + b"9" + whole[101:])
    assert kept.load("ab") is None


def test_listings_of_other_commits_prefixes_and_repositories_have_other_keys() -> None:
    keys = {
        listing_cache.key("r", "c", "p"),
        listing_cache.key("r", "c2", "p"),
        listing_cache.key("r", "c", "p/"),
        listing_cache.key("r2", "c", "p"),
    }
    assert len(keys) == 4
