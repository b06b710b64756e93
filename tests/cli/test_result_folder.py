import os
import stat
from pathlib import Path

import pytest

from perago.cli import _result_folder as result_folder
from perago.errors import SetupError
from perago.local_run.folder_lake import Stored
from perago.model import FilePath


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "sub").mkdir(parents=True)
    (made / "a.txt").write_text("a")
    return made


def files(workspace: Path, *, executable: bool = False) -> dict[FilePath, Stored]:
    return {FilePath("deep/a.txt"): Stored(workspace / "a.txt", 1, "x", executable)}


@pytest.mark.parametrize("inside", [".", "sub", "sub/new", ".."])
def test_a_target_that_overlaps_the_workspace_is_refused(workspace: Path, inside: str) -> None:
    with pytest.raises(SetupError, match="overlaps --workspace"):
        result_folder.refuse_dangerous(workspace / inside, workspace)


def test_occupied_targets_are_refused(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, why in [("full", "is not empty"), ("full/x", "is a file"), ("link", "is a symlink"), ("here", "working directory")]:
        with pytest.raises(SetupError, match=why):
            result_folder.refuse_dangerous(tmp_path / name, workspace)


@pytest.mark.parametrize("target", ["new", "empty", "far/away"])
def test_a_new_or_an_empty_folder_gets_everything(workspace: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    result_folder.refuse_dangerous(tmp_path / target, workspace)
    result_folder.write(tmp_path / target, files(workspace))
    assert (tmp_path / target / "deep/a.txt").read_text() == "a"
    assert stat.S_IMODE((tmp_path / target).stat().st_mode) == 0o777 & ~result_folder._umask()


def test_the_executable_bit_comes_along(workspace: Path, tmp_path: Path) -> None:
    result_folder.write(tmp_path / "new", files(workspace, executable=True))
    assert os.access(tmp_path / "new/deep/a.txt", os.X_OK)


def test_a_failure_leaves_nothing_behind(workspace: Path, tmp_path: Path) -> None:
    broken = {**files(workspace), FilePath("b"): Stored(tmp_path / "gone", 1, "x")}
    with pytest.raises(SetupError, match="cannot write"):
        result_folder.write(tmp_path / "new", broken)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ws"]


def test_a_target_that_filled_up_meanwhile_is_not_overwritten(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/precious").touch()
    with pytest.raises(SetupError, match="cannot write"):
        result_folder.write(tmp_path / "new", files(workspace))
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["precious"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["new", "ws"]
