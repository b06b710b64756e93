import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from perago.dev import datadir
from perago.errors import DevStackError, ProvisionError


def test_a_temporary_directory_disappears_and_a_named_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary = datadir.acquire(None)
    assert temporary.path.parent == tmp_path
    temporary.close()
    assert not temporary.path.exists()

    named = datadir.acquire(tmp_path / "deep" / "data")
    named.close()
    again = datadir.acquire(tmp_path / "deep" / "data")
    again.close()
    assert again.credentials == named.credentials


def test_every_directory_gets_secrets_of_its_own_and_shows_them_to_nobody(tmp_path: Path) -> None:
    first, second = datadir.acquire(tmp_path / "1"), datadir.acquire(tmp_path / "2")
    first.close()
    second.close()
    assert first.credentials.secret_access_key != second.credentials.secret_access_key
    assert first.credentials.secret_access_key not in repr(first)
    assert first.credentials.encryption_key not in repr(first)
    assert (tmp_path / "1").stat().st_mode & 0o077 == 0
    assert (tmp_path / "1" / "credentials.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", '{"access_key_id": "x"}'])
def test_damaged_credentials_are_named(tmp_path: Path, text: str) -> None:
    datadir.acquire(tmp_path).close()
    (tmp_path / "credentials.json").write_text(text)
    with pytest.raises(DevStackError, match=r"credentials\.json is damaged"):
        datadir.acquire(tmp_path)
    (tmp_path / "credentials.json").unlink()
    datadir.acquire(tmp_path).close()


def test_a_directory_in_use_is_refused_until_it_is_let_go(tmp_path: Path) -> None:
    held = datadir.acquire(tmp_path)
    with pytest.raises(DevStackError, match=rf"is in use by another perago dev \(process {os.getpid()}\)"):
        datadir.acquire(tmp_path)
    held.close()
    datadir.acquire(tmp_path).close()


def test_a_directory_with_other_things_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(DevStackError, match="is not empty and was not made by perago dev"):
        datadir.acquire(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_a_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProvisionError, match=r"preparing the data directory failed: Not a directory: .*/file/data"):
        datadir.acquire(tmp_path / "file" / "data")


def test_a_full_disk_is_told_and_no_temporary_directory_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=5 << 20))
    with pytest.raises(DevStackError, match="needs 256 MiB of free disk and has 5 MiB"):
        datadir.acquire(None)
    assert not list(tmp_path.iterdir())
