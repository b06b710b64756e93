"""Local files that are no regular files, or that change during the transfer."""

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest
from tests.support.lake_sites import file

from perago.errors import LakeCorrupt, WorkspaceError
from perago.http.request import ReplyHead
from perago.lake import hashing, transfer
from perago.model import ObjectInfo, ObjectPath


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(WorkspaceError, match="fifo is not a regular file"), transfer.upload(tmp_path / "fifo"):
        pass


def test_a_symlink_is_not_followed(tmp_path: Path) -> None:
    file(tmp_path, b"secret", "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match="link"), transfer.upload(tmp_path / "link"):
        pass


@pytest.mark.parametrize("size", [1, 100_000, 1_000_000])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_that_changes_its_size_is_never_sent_whole(tmp_path: Path, size: int, change: int) -> None:
    source = file(tmp_path, b"x" * size)
    with transfer.upload(source) as sending:
        os.truncate(source, size + change)
        received: list[bytes] = []
        with pytest.raises(WorkspaceError, match="changed its size"):
            received.extend(bytes(part) for part in sending._parts())
    assert sum(map(len, received)) < size


def test_an_empty_file_that_grows_is_noticed(tmp_path: Path) -> None:
    source = file(tmp_path, b"")
    with transfer.upload(source) as sending:
        os.truncate(source, 1)
        with pytest.raises(WorkspaceError, match="changed its size"):
            sending.content()


def test_an_upload_can_begin_anew(tmp_path: Path) -> None:
    with transfer.upload(file(tmp_path, b"content")) as sending:
        first = sending.content(), sending.md5
        assert (sending.content(), sending.md5) == first


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (9 << 20) + 5])
def test_hashing_in_a_thread_gives_the_same_digest(size: int) -> None:
    data = os.urandom(size)
    threaded = hashing.ThreadedMd5()
    for at in range(0, size, 100_000):
        threaded.update(memoryview(data)[at : at + 100_000])
    assert threaded.hexdigest() == hashlib.md5(data).hexdigest()
    assert threaded.hexdigest() == hashlib.md5(data).hexdigest()


def test_large_files_are_hashed_in_a_thread_in_both_directions_and_leave_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "HASHED_IN_THREAD", 1000)
    data = os.urandom(3 << 20)
    source, md5 = file(tmp_path, data), hashlib.md5(data).hexdigest()
    receive = transfer.save("read 'a'", ObjectInfo(ObjectPath("a"), len(data), md5), tmp_path / "into")
    assert receive(ReplyHead(200, {}, len(data)), [memoryview(data)]) == md5
    with transfer.upload(source) as sending:
        assert b"".join(map(bytes, sending._parts())) == data
        assert sending.md5 == md5
    with transfer.upload(source) as abandoned:
        next(abandoned._parts())
    short = transfer.save("read 'a'", ObjectInfo(ObjectPath("a"), len(data), md5), tmp_path / "cut")
    with pytest.raises(LakeCorrupt):
        short(ReplyHead(200, {}, len(data)), [memoryview(data)[1:]])
    assert not [thread for thread in threading.enumerate() if thread.name == "perago-md5"]


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    receive = transfer.save("read 'a'", ObjectInfo(ObjectPath("a"), 3, ""), tmp_path / "into")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WorkspaceError, match="No space left"):
        receive(ReplyHead(200, {}, 3), [memoryview(b"abc")])
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sent", [b"ab", b"abcd"])
def test_a_body_of_unknown_length_is_counted(tmp_path: Path, sent: bytes) -> None:
    receive = transfer.save("read 'a'", ObjectInfo(ObjectPath("a"), 3, ""), tmp_path / "into")
    with pytest.raises(LakeCorrupt, match="3 were announced"):
        receive(ReplyHead(200, {}, None), [memoryview(sent)])
    assert list(tmp_path.iterdir()) == []
