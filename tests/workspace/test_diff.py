import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import workspaces

from perago.errors import WorkspaceError
from perago.model import FilePath
from perago.workspace import diff, filesystem_probes, scan

A = FilePath("a")


class Folder:
    """A directory with a manifest, as a download would leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hashed: list[str] = []

    def manifest(self) -> dict[FilePath, diff.FileEntry]:
        found = scan.scan(str(self.root))
        newest = max((status.ctime_ns for status in found.files.values()), default=0)
        assert filesystem_probes.wait_for_clock(str(self.root), newest) > newest
        return {path: self._entry(path, status) for path, status in found.files.items()}

    def _entry(self, path: FilePath, status: scan.FileStat) -> diff.FileEntry:
        return diff.FileEntry(status.size, scan.digest(str(self.root), path, status), status, status.executable)

    def changes(self, before: diff.Manifest) -> diff.FileChanges:
        return diff.diff(before, diff.build_manifest(before, scan.scan(str(self.root)), self._digest))

    def _digest(self, path: FilePath, status: scan.FileStat) -> str:
        self.hashed.append(path)
        return scan.digest(str(self.root), path, status)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def uploaded(change: diff.FileChanges) -> list[str]:
    return [upload.path for upload in change.uploads]


def test_nothing_touched_is_no_change_and_reads_no_content(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"1", "d/b": b"2"})
    before = folder.manifest()
    assert folder.changes(before).is_empty
    assert folder.hashed == []


def test_new_changed_and_deleted_files(folder: Folder) -> None:
    workspaces.write(folder.root, {"keep": b"1", "grow": b"2", "gone": b"3"})
    before = folder.manifest()
    workspaces.write(folder.root, {"grow": b"22", "fresh": b"4"})
    (folder.root / "gone").unlink()
    change = folder.changes(before)
    assert uploaded(change) == ["fresh", "grow"]
    assert [upload.is_new for upload in change.uploads] == [True, False]
    assert change.deletes == ["gone"]
    assert change.upload_bytes == 3
    assert folder.hashed == []


def test_a_touched_but_identical_file_is_no_change(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"1"})
    before = folder.manifest()
    (folder.root / "a").touch()
    assert folder.changes(before).is_empty
    assert folder.hashed == ["a"]


def test_a_file_replaced_by_an_identical_one_is_no_change(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"1"})
    before = folder.manifest()
    (folder.root / "a").rename(folder.root / "b")
    (folder.root / "a").write_bytes(b"1")
    (folder.root / "b").unlink()
    assert folder.changes(before).is_empty


def test_the_same_size_with_its_mtime_set_back_still_counts_as_changed(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"one"})
    before = folder.manifest()
    old = (folder.root / "a").stat()
    with (folder.root / "a").open("r+b") as file:
        file.write(b"two")
    os.utime(folder.root / "a", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert (folder.root / "a").stat().st_mtime_ns == old.st_mtime_ns
    assert uploaded(folder.changes(before)) == ["a"]


def test_a_change_right_after_the_manifest_is_seen_however_coarse_the_clock(folder: Folder) -> None:
    for _ in range(50):
        workspaces.write(folder.root, {"a": b"one"})
        before = folder.manifest()
        with (folder.root / "a").open("r+b") as file:
            file.write(b"two")
        assert uploaded(folder.changes(before)) == ["a"]


def test_stat_data_that_was_too_young_to_trust_leads_to_a_hash(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"one", "b": b"two"})
    before = {path: entry._replace(stat=None) for path, entry in folder.manifest().items()}
    assert folder.changes(before).is_empty
    assert sorted(folder.hashed) == ["a", "b"]
    before[A] = before[A]._replace(md5=workspaces.md5(b"was"))
    assert uploaded(folder.changes(before)) == ["a"]


def test_an_executable_bit_is_a_change_of_its_own_and_keeps_other_metadata(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"#!"})
    before = {A: folder.manifest()[A]._replace(content_type="text/x-sh", metadata={"owner": "me"})}
    (folder.root / "a").chmod(0o755)
    [upload] = folder.changes(before).uploads
    assert upload.content_type == "text/x-sh"
    assert upload.metadata == {"owner": "me", diff.EXECUTABLE_KEY: "true"}


def test_a_bit_that_is_taken_away_leaves_no_metadata(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"#!"})
    (folder.root / "a").chmod(0o755)
    before = {A: folder.manifest()[A]._replace(metadata={diff.EXECUTABLE_KEY: "true", "k": "v"})}
    (folder.root / "a").chmod(0o644)
    assert folder.changes(before).uploads[0].metadata == {"k": "v"}


def test_edited_content_keeps_content_type_and_metadata(folder: Folder) -> None:
    workspaces.write(folder.root, {"a": b"1"})
    before = {A: folder.manifest()[A]._replace(content_type="text/plain", metadata={"k": "v"})}
    workspaces.write(folder.root, {"a": b"2"})
    [upload] = folder.changes(before).uploads
    assert (upload.content_type, upload.metadata, upload.is_new) == ("text/plain", {"k": "v"}, False)


def test_many_suspects_are_hashed_each_once(folder: Folder) -> None:
    workspaces.write(folder.root, {f"d{n % 7}/{n}": b"%d" % n for n in range(200)})
    before = folder.manifest()
    for path in before:
        (folder.root / path).touch()
    workspaces.write(folder.root, {"d3/3": b"X"})
    assert uploaded(folder.changes(before)) == ["d3/3"]
    assert sorted(folder.hashed) == sorted(before)


def test_an_error_while_hashing_is_the_error_of_the_survey(folder: Folder) -> None:
    workspaces.write(folder.root, {f"{n}": b"1" for n in range(10)})
    before = {path: entry._replace(stat=None) for path, entry in folder.manifest().items()}
    found = scan.scan(str(folder.root))
    (folder.root / "7").unlink()
    with pytest.raises(WorkspaceError, match="'7' vanished"):
        diff.build_manifest(before, found, lambda path, status: scan.digest(str(folder.root), path, status))


STATUS = scan.FileStat(1, 1, 1, 1, executable=False)
TREES = st.dictionaries(st.sampled_from("abcdef").map(FilePath), st.sampled_from("xyz"), max_size=6)


def entries(content: dict[FilePath, str]) -> dict[FilePath, diff.FileEntry]:
    return {path: diff.FileEntry(1, md5, STATUS, executable=False) for path, md5 in content.items()}


@given(TREES, TREES)
def test_applying_the_change_to_the_old_tree_gives_the_new_one_with_no_needless_step(
    old: dict[FilePath, str], new: dict[FilePath, str]
) -> None:
    change = diff.diff(entries(old), entries(new))
    applied = {path: md5 for path, md5 in old.items() if path not in change.deletes}
    applied.update({upload.path: new[upload.path] for upload in change.uploads})
    assert applied == new
    assert set(uploaded(change)) == {path for path in new if old.get(path) != new[path]}
    assert change.is_empty == (old == new)
