import os
import socket
import stat
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.errors import WorkspaceError
from perago.model import FilePath
from perago.workspace import scan


def test_a_scan_sees_regular_files_at_every_depth_and_empty_directories(tmp_path: Path) -> None:
    workspaces.write(tmp_path, {"a": b"1", "d/b": b"22", "d/e/c": b""})
    (tmp_path / "hollow/inner").mkdir(parents=True)
    found = scan.scan(str(tmp_path))
    assert {path: status.size for path, status in found.files.items()} == {"a": 1, "d/b": 2, "d/e/c": 0}
    assert found.listing().files == ["a", "d/b", "d/e/c"]
    assert found.listing().empty_directories == ["hollow", "hollow/inner"]


def test_marker_name_is_ignored_at_every_depth(tmp_path: Path) -> None:
    workspaces.write(tmp_path, {".perago-attempt.json": b"{}", "sub/.perago-attempt.json": b"{}", "x.perago-attempt.json": b"{}"})
    assert list(scan.scan(str(tmp_path)).files) == ["x.perago-attempt.json"]


def make_odd(root: Path, kind: str) -> None:
    path = root / "d" / "odd"
    path.parent.mkdir()
    if kind == "symlinks":
        path.symlink_to("nowhere")
    elif kind == "fifos":
        os.mkfifo(path)
    elif kind == "sockets":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))
    else:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


@pytest.mark.parametrize("kind", ["symlinks", "fifos", "sockets", "devices"])
def test_what_is_no_file_is_refused_by_its_own_name_when_published(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_odd(tmp_path, kind)
    found = scan.scan(str(tmp_path))
    assert found.listing().files == []
    with pytest.raises(WorkspaceError, match=f"^workspace publication does not support {kind}: d/odd$"):
        scan.require_publishable(found)


def test_a_symlink_to_a_directory_is_not_followed(tmp_path: Path) -> None:
    workspaces.write(tmp_path / "outside", {"secret": b"x"})
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path / "outside")
    found = scan.scan(str(tmp_path / "work"))
    assert found.files == {}
    assert found.special_files == [("link", "symlinks")]


def test_hard_links_are_files_like_others(tmp_path: Path) -> None:
    workspaces.write(tmp_path, {"a": b"same"})
    os.link(tmp_path / "a", tmp_path / "b")
    assert sorted(scan.scan(str(tmp_path)).files) == ["a", "b"]


def test_a_directory_that_cannot_be_read_is_an_error_and_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspaces.write(tmp_path, {"d/a": b"1"})
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("/d"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(WorkspaceError, match="cannot read 'd' in the workspace: Permission denied"):
        scan.scan(str(tmp_path))


def test_a_file_that_changes_while_it_is_hashed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspaces.write(tmp_path, {"a": b"x" * 100})
    status = scan.scan(str(tmp_path)).files[FilePath("a")]
    real = os.read

    def read_and_grow(descriptor: int, count: int) -> bytes:
        data = real(descriptor, count)
        if data:
            with (tmp_path / "a").open("ab") as file:
                file.write(b"more")
                monkeypatch.setattr(os, "read", real)
        return data

    assert scan.digest(str(tmp_path), FilePath("a"), status) == workspaces.md5(b"x" * 100)
    monkeypatch.setattr(os, "read", read_and_grow)
    with pytest.raises(WorkspaceError, match="'a' changed while it was read"):
        scan.digest(str(tmp_path), FilePath("a"), status)


def test_a_file_that_vanishes_before_it_is_hashed_is_an_error(tmp_path: Path) -> None:
    workspaces.write(tmp_path, {"a": b"x"})
    status = scan.scan(str(tmp_path)).files[FilePath("a")]
    (tmp_path / "a").unlink()
    with pytest.raises(WorkspaceError, match="'a' vanished"):
        scan.digest(str(tmp_path), FilePath("a"), status)
    with pytest.raises(WorkspaceError, match="'a' vanished"):
        scan.require_unchanged(str(tmp_path), FilePath("a"), status)


def test_sparse_files_are_as_large_as_they_say(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(6 << 30)
    assert scan.scan(str(tmp_path)).files[FilePath("sparse")].size == 6 << 30
