"""Large files that were uploaded are moved into the cache, unless something can still change them."""

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import FilePath
from perago.workspace import scan
from perago.workspace.cache import adoption, content_cache
from perago.workspace.transfer import thread_pool

LARGE = os.urandom(thread_pool.HEAVY + 1)
MD5 = workspaces.md5(LARGE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[content_cache.ContentCache]:
    made = content_cache.ContentCache(tmp_path / "cache")
    yield made
    made.flush()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/large").write_bytes(LARGE)
    return tmp_path / "work/large"


def uploaded(large: Path) -> adoption.UploadedFile:
    return adoption.UploadedFile(FilePath("large"), len(LARGE), MD5, scan.file_stat(large.stat()))


def inode_in_cache(store: content_cache.ContentCache, tmp_path: Path) -> int:
    assert store.restore(MD5, len(LARGE), str(tmp_path / "copy")) is not None
    assert (tmp_path / "copy").read_bytes() == LARGE
    return Path(store._entry(MD5, len(LARGE))).stat().st_ino


def test_a_file_that_nothing_can_write_to_is_moved(store: content_cache.ContentCache, large: Path, tmp_path: Path) -> None:
    inode = large.stat().st_ino
    adoption.adopt(store, str(large.parent), [uploaded(large)])
    assert inode_in_cache(store, tmp_path) == inode
    assert not large.exists()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_that_something_can_write_to_is_copied(
    store: content_cache.ContentCache, large: Path, tmp_path: Path, *, mapped: bool
) -> None:
    inode = large.stat().st_ino
    with ExitStack() as opened:
        file = opened.enter_context(large.open("r+b"))
        if mapped:
            opened.enter_context(mmap.mmap(file.fileno(), 0))
            file.close()
        adoption.adopt(store, str(large.parent), [uploaded(large)])
    assert inode_in_cache(store, tmp_path) != inode


def edit(large: Path) -> None:
    with large.open("r+b") as file:
        file.write(b"edited")


def link(large: Path) -> None:
    large.with_name("link").hardlink_to(large)


@pytest.mark.parametrize("change", [edit, link, Path.unlink])
def test_a_file_that_is_no_longer_as_it_was_uploaded_stays_out(
    store: content_cache.ContentCache, large: Path, change: Callable[[Path], object]
) -> None:
    was = uploaded(large)
    change(large)
    adoption.adopt(store, str(large.parent), [was])
    assert not store.contains(MD5, len(LARGE))


def test_the_next_step_finds_what_the_one_before_it_uploaded(harness: workspaces.WorkspaceHarness) -> None:
    commit = harness.setup.commit({"p/small": b"1"})
    first = harness.workspace(commit, "p")
    first.open()
    workspaces.write(first.argument(), {"large": LARGE})
    made = harness.publish(first, commit)
    first.close()
    before = harness.setup.calls["read"]
    with harness.opened(made, "p") as second:
        assert (second.argument() / "large").read_bytes() == LARGE
    assert harness.setup.calls["read"] == before
