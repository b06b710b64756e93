from pathlib import Path

import pytest

from perago.provision import manifest


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.jar").write_bytes(b"a" * 1000)
    (tmp_path / "program").write_bytes(b"p" * 5000)
    (tmp_path / "link").symlink_to("program")
    manifest.write(tmp_path)
    return tmp_path


def test_unchanged_artifact_is_intact(artifact: Path) -> None:
    assert manifest.is_intact(artifact)


def test_directory_without_manifest_is_not_intact(tmp_path: Path) -> None:
    assert not manifest.is_intact(tmp_path)
    assert not manifest.is_intact(tmp_path / "missing")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"program": {"size": 1}}', '{"program": 3}'])
def test_artifact_with_damaged_manifest_is_not_intact(artifact: Path, text: str) -> None:
    (artifact / manifest.NAME).write_text(text)
    assert not manifest.is_intact(artifact)


def test_truncated_file_is_detected(artifact: Path) -> None:
    with (artifact / "program").open("r+b") as handle:
        handle.truncate(4999)
    assert not manifest.is_intact(artifact)


def test_changed_byte_is_detected(artifact: Path) -> None:
    with (artifact / "lib" / "a.jar").open("r+b") as handle:
        handle.seek(500)
        handle.write(b"X")
    assert not manifest.is_intact(artifact)


def test_missing_file_is_detected(artifact: Path) -> None:
    (artifact / "lib" / "a.jar").unlink()
    assert not manifest.is_intact(artifact)


def test_changed_link_is_detected(artifact: Path) -> None:
    (artifact / "link").unlink()
    (artifact / "link").symlink_to("lib")
    assert not manifest.is_intact(artifact)


def test_new_change_time_of_same_bytes_is_remembered(artifact: Path) -> None:
    before = (artifact / manifest.NAME).read_text()
    (artifact / "program").chmod(0o755)
    assert manifest.is_intact(artifact)
    after = (artifact / manifest.NAME).read_text()
    assert after != before
    assert manifest.is_intact(artifact)
    assert (artifact / manifest.NAME).read_text() == after
