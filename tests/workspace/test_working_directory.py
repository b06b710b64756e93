"""The scratch directory of bodies without a workspace directory: passed on while it is empty, replaced when it is not."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import MARKER_NAME, ExecutionId
from perago.workspace import attempt_directory
from perago.workspace.working_directory import ScratchDirectory


def used(
    scratch: ScratchDirectory, number: int, body: Callable[[Path], object] = lambda _work: None
) -> attempt_directory.AttemptDirectory:
    with scratch.taken(workspaces.attempt(f"t{number}"), ExecutionId(f"e{number}"), pytest.fail) as directory:
        assert directory.path.name == f"t{number}-e{number}"
        assert json.loads((directory.path / MARKER_NAME).read_text())["execution_id"] == f"e{number}"
        assert list(directory.work.iterdir()) == []
        body(directory.work)
    return directory


def inode(work: Path) -> int:
    return work.stat().st_ino


def test_an_empty_directory_is_passed_on_under_the_name_of_the_next_execution(tmp_path: Path) -> None:
    scratch = ScratchDirectory(tmp_path)
    inodes: list[int] = []
    for number in range(3):
        used(scratch, number, lambda work: inodes.append(inode(work)))
    assert len(set(inodes)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [f".scratch-{os.getpid()}"]
    assert attempt_directory.remove_abandoned(tmp_path) == [], "this process still holds its lock"
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def leave_a_file(work: Path) -> None:
    (work / "left").write_text("x")


def leave_a_directory(work: Path) -> None:
    (work / "left").mkdir()


def replace_it(work: Path) -> None:
    work.rmdir()
    work.mkdir()


def make_it_unreadable(work: Path) -> None:
    work.chmod(0)


@pytest.mark.parametrize("body", [leave_a_file, leave_a_directory, replace_it, make_it_unreadable, shutil.rmtree])
def test_a_directory_that_is_not_as_it_was_is_replaced(tmp_path: Path, body: Callable[[Path], object]) -> None:
    scratch = ScratchDirectory(tmp_path)
    kept = os.open(used(scratch, 1).work, os.O_RDONLY)  # keeps the inode number from being used again
    used(scratch, 2, body)
    assert inode(used(scratch, 3).work) != os.fstat(kept).st_ino
    os.close(kept)
    assert [path.name for path in tmp_path.iterdir()] == [f".scratch-{os.getpid()}"]
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_is_found_by_the_id_of_its_execution(tmp_path: Path) -> None:
    """So that the supervisor can remove it after the executor died."""
    scratch = ScratchDirectory(tmp_path)
    used(scratch, 1)
    with scratch.taken(workspaces.attempt("t2"), ExecutionId("e2"), pytest.fail):
        assert not attempt_directory.remove_execution(tmp_path, ExecutionId("e2")), "its lock is held"
        assert [path.name for path in tmp_path.iterdir()] == ["t2-e2"]
    scratch.remove()
