"""The flag that makes ext4 place each attempt in a block group of its own, and file systems without it."""

import fcntl
import os
import struct
import tempfile
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import ExecutionId
from perago.workspace import attempt_directory, placement

GET, SET = 0x80086601, 0x40086602
TOP_DIRECTORY, NO_DUMP = 0x20000, 0x40


def flags(path: Path, new: int | None = None) -> int:
    """The flags of a directory, after they were set to `new`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if new is not None:
            fcntl.ioctl(descriptor, SET, struct.pack("q", new))
        return struct.unpack("i4x", fcntl.ioctl(descriptor, GET, bytes(8)))[0]
    finally:
        os.close(descriptor)


def on_ext4(path: Path) -> bool:
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    within = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(within, key=lambda found: len(found[0]))[1] == "ext4"


@pytest.mark.parametrize("before", [0, NO_DUMP])
def test_the_directory_of_attempts_becomes_a_top_directory_and_keeps_its_other_flags(tmp_path: Path, before: int) -> None:
    root = tmp_path / "attempts"
    root.mkdir()
    if not on_ext4(root):
        attempt_directory.create(root, workspaces.attempt("t1"), ExecutionId("e1")).remove()
        assert list(root.iterdir()) == []
        return
    plain = flags(root) & ~TOP_DIRECTORY
    flags(root, plain | before)
    attempt_directory.create(root, workspaces.attempt("t1"), ExecutionId("e1")).remove()
    assert flags(root) == plain | before | TOP_DIRECTORY
    assert not flags(tmp_path) & TOP_DIRECTORY


def test_a_file_system_without_the_flag_is_left_alone() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        made = attempt_directory.create(Path(name), workspaces.attempt("t1"), ExecutionId("e1"))
        assert made.work.is_dir()
        made.remove()


def test_a_directory_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    placement.spread(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
