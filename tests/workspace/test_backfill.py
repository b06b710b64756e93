"""Large files are copied into the cache while the body runs, and never with changes of the body."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import FilePath
from perago.workspace import diff, scan
from perago.workspace.cache import backfill, content_cache
from perago.workspace.transfer import thread_pool

LARGE = os.urandom(thread_pool.HEAVY + 1)
PATH = FilePath("large")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[content_cache.ContentCache]:
    made = content_cache.ContentCache(tmp_path / "cache")
    yield made
    made.flush()


def downloaded(work: Path) -> diff.Manifest:
    work.mkdir()
    (work / PATH).write_bytes(LARGE)
    status = scan.file_stat((work / PATH).stat())
    return {PATH: diff.FileEntry(len(LARGE), workspaces.md5(LARGE), status, executable=False)}


def edit(file: Path) -> None:
    with file.open("r+b") as out:
        out.write(b"edited")


def replace(file: Path) -> None:
    file.rename(file.with_name("away"))
    file.write_bytes(LARGE)


def test_a_second_attempt_reads_nothing_of_a_large_file_that_the_first_one_left_as_it_was(
    harness: workspaces.WorkspaceHarness,
) -> None:
    commit = harness.setup.commit({"p/large": LARGE, "p/small": b"1"})
    first = harness.workspace(commit, "p")
    first.open()
    first.until_cached()
    before = dict(harness.setup.calls)
    second = harness.workspace(commit, "p")
    second.open()
    assert dict(harness.setup.calls) == before
    assert (second.argument() / PATH).read_bytes() == LARGE
    first.close()
    second.close()


@pytest.mark.parametrize("harm", [edit, replace, Path.unlink])
def test_what_the_body_did_before_the_copy_keeps_it_out(
    store: content_cache.ContentCache, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    manifest = downloaded(tmp_path / "work")
    harm(tmp_path / "work" / PATH)
    backfill.CacheBackfill(store, str(tmp_path / "work"), manifest, [PATH]).finish()
    assert not store.contains(workspaces.md5(LARGE), len(LARGE))
    assert store.is_enabled


def test_what_the_body_does_during_the_copy_keeps_it_out(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = downloaded(tmp_path / "work")
    copy = content_cache.file_copy.copy

    def slow(*arguments: int | str) -> os.stat_result:
        edit(tmp_path / "work" / PATH)
        return copy(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(content_cache.file_copy, "copy", slow)
    backfill.CacheBackfill(store, str(tmp_path / "work"), manifest, [PATH]).finish()
    assert not store.contains(workspaces.md5(LARGE), len(LARGE))


def test_giving_up_leaves_the_rest_and_no_thread(
    store: content_cache.ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = downloaded(tmp_path / "work")
    kept: list[str] = []
    job: list[backfill.CacheBackfill] = []

    def insert(source: str, *_: object, **__: object) -> None:
        kept.append(source)
        job[0]._stopped.set()

    monkeypatch.setattr(store, "insert", insert)
    monkeypatch.setattr(backfill.threading.Thread, "start", lambda _self: None)
    job.append(backfill.CacheBackfill(store, str(tmp_path / "work"), manifest, [PATH, PATH, PATH]))
    job[0]._fill([PATH, PATH, PATH])
    assert len(kept) == 1
