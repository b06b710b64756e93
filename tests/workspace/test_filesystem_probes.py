import itertools
import unicodedata
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.model import FilePath
from perago.workspace import filesystem_probes, scan


def test_settling_waits_until_the_clock_of_the_file_system_has_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([5, 5, 5, 6])
    monkeypatch.setattr(filesystem_probes, "_touch", lambda _: next(ticks))
    assert filesystem_probes.wait_for_clock(str(tmp_path), 5) == 6
    assert list(tmp_path.iterdir()) == []


def test_settling_gives_up_on_a_clock_that_does_not_advance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_probes, "_touch", lambda _: 5)
    assert filesystem_probes.wait_for_clock(str(tmp_path), 5) == 5


def test_files_as_young_as_a_standing_clock_are_compared_by_content(
    memory_harness: workspaces.WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = memory_harness.setup.commit({"p/a": b"one", "p/b": b"two"})
    monkeypatch.setattr(filesystem_probes, "wait_for_clock", lambda *_: 0)
    hashed: list[FilePath] = []
    real = scan.digest

    def digest(root: str, path: FilePath, expected: scan.FileStat) -> str:
        hashed.append(path)
        return real(root, path, expected)

    monkeypatch.setattr(scan, "digest", digest)
    with memory_harness.opened(commit, "p") as workspace:
        workspace.argument()
        assert workspace.changed().is_empty
    assert sorted(hashed) == ["a", "b"]


def test_a_file_system_that_keeps_names_apart_is_told_from_one_that_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not filesystem_probes.folds_names(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    for variant in (str.lower, lambda name: unicodedata.normalize("NFD", name)):
        monkeypatch.setattr(
            filesystem_probes.os.path, "lexists", lambda path, fold=variant: path.endswith(fold(filesystem_probes._PROBE))
        )
        assert filesystem_probes.folds_names(str(tmp_path))


def test_the_probes_use_names_that_no_business_file_meets(tmp_path: Path) -> None:
    for _ in itertools.repeat(None, 3):
        (tmp_path / ".clock").write_bytes(b"theirs")
        filesystem_probes.wait_for_clock(str(tmp_path), 0)
        assert (tmp_path / ".clock").read_bytes() == b"theirs"
