import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from perago.dev import data_directory
from perago.errors import DevStackError, ProvisionError


def test_temporary_directory_is_removed_and_named_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary = data_directory.acquire(None)
    assert temporary.path.parent == tmp_path
    temporary.close()
    assert not temporary.path.exists()

    named = data_directory.acquire(tmp_path / "deep" / "data")
    named.close()
    again = data_directory.acquire(tmp_path / "deep" / "data")
    again.close()
    assert again.credentials == named.credentials


def test_each_directory_has_its_own_secrets_readable_by_owner_only(tmp_path: Path) -> None:
    first, second = data_directory.acquire(tmp_path / "1"), data_directory.acquire(tmp_path / "2")
    first.close()
    second.close()
    assert first.credentials.secret_access_key != second.credentials.secret_access_key
    assert first.credentials.secret_access_key not in repr(first)
    assert first.credentials.encryption_key not in repr(first)
    assert (tmp_path / "1").stat().st_mode & 0o077 == 0
    assert (tmp_path / "1" / "credentials.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", '{"access_key_id": "x"}'])
def test_damaged_credentials_are_reported(tmp_path: Path, text: str) -> None:
    data_directory.acquire(tmp_path).close()
    (tmp_path / "credentials.json").write_text(text)
    with pytest.raises(DevStackError, match=r"credentials\.json is damaged"):
        data_directory.acquire(tmp_path)
    (tmp_path / "credentials.json").unlink()
    data_directory.acquire(tmp_path).close()


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    held = data_directory.acquire(tmp_path)
    with pytest.raises(DevStackError, match=rf"is in use by another perago dev \(process {os.getpid()}\)"):
        data_directory.acquire(tmp_path)
    held.close()
    data_directory.acquire(tmp_path).close()


def test_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(DevStackError, match="is not empty and was not made by perago dev"):
        data_directory.acquire(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_path_below_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProvisionError, match=r"preparing the data directory failed: Not a directory: .*/file/data"):
        data_directory.acquire(tmp_path / "file" / "data")


def test_full_disk_is_reported_and_leaves_no_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=5 << 20))
    with pytest.raises(DevStackError, match="needs 256 MiB of free disk and has 5 MiB"):
        data_directory.acquire(None)
    assert not list(tmp_path.iterdir())
