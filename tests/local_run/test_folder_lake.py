from pathlib import Path

import pytest

from perago.errors import LakeCorrupt, LakeNotFound
from perago.in_memory.lake import MAIN
from perago.local_run.folder_lake import REPOSITORY, FolderLake
from perago.model import BranchName, ObjectPath

STAGING = BranchName("staging")


def path(name: str) -> ObjectPath:
    return ObjectPath(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "in/a.txt").write_bytes(b"alpha")
    (tmp_path / "in/b.txt").write_bytes(b"beta")
    return tmp_path


@pytest.fixture
def lake(folder: Path) -> FolderLake:
    return FolderLake({path("p/a.txt"): folder / "in/a.txt", path("p/b.txt"): folder / "in/b.txt"}, folder / "store")


def test_the_folder_is_the_input_commit(lake: FolderLake, folder: Path) -> None:
    page = lake.objects(REPOSITORY, lake.start, "p/")
    assert [(info.path, info.size) for info in page.objects] == [("p/a.txt", 5), ("p/b.txt", 4)]
    assert lake.head(REPOSITORY, MAIN).id == lake.start
    assert lake.read(REPOSITORY, lake.start, page.objects[0], folder / "copy") == "2c1743a391305fbf367df8e4f069f9f9"
    assert (folder / "copy").read_bytes() == b"alpha"


def test_an_empty_folder_is_an_empty_commit(tmp_path: Path) -> None:
    lake = FolderLake({}, tmp_path)
    assert lake.objects(REPOSITORY, lake.start, "").objects == []
    assert lake.given() == {}


def test_a_merge_publishes_what_was_staged_and_leaves_the_folder_alone(lake: FolderLake, folder: Path) -> None:
    (folder / "new").write_bytes(b"ALPHA!")
    lake.create_branch(REPOSITORY, STAGING, lake.start)
    lake.write(REPOSITORY, STAGING, path("p/a.txt"), folder / "new", content_type="text/plain", metadata={})
    lake.write(REPOSITORY, STAGING, path("p/c.txt"), folder / "new", content_type="text/plain", metadata={})
    lake.delete_objects(REPOSITORY, STAGING, [path("p/b.txt")])
    staged = lake.commit_branch(REPOSITORY, STAGING, "stage", {})
    merged = lake.merge(REPOSITORY, STAGING, MAIN, message="m", metadata={}, timeout=1)
    assert lake.commit(REPOSITORY, merged).meta_range_id == staged.meta_range_id
    assert {name: held.at.read_bytes() for name, held in lake.published().items()} == {"p/a.txt": b"ALPHA!", "p/c.txt": b"ALPHA!"}
    assert set(lake.given()) == {"p/a.txt", "p/b.txt"}
    assert (folder / "in/a.txt").read_bytes() == b"alpha"


def test_a_folder_that_changes_meanwhile_is_noticed(lake: FolderLake, folder: Path) -> None:
    info = lake.objects(REPOSITORY, lake.start, "p/a").objects[0]
    (folder / "in/a.txt").write_bytes(b"longer than before")
    with pytest.raises(LakeCorrupt, match="5 were announced"):
        lake.read(REPOSITORY, lake.start, info, folder / "copy")
    assert not (folder / "copy").exists()


def test_what_is_not_there_is_not_found(lake: FolderLake, folder: Path) -> None:
    info = lake.objects(REPOSITORY, lake.start, "p/a").objects[0]
    lake.create_branch(REPOSITORY, STAGING, lake.start)
    lake.delete_objects(REPOSITORY, STAGING, [info.path])
    with pytest.raises(LakeNotFound):
        lake.read(REPOSITORY, STAGING, info, folder / "copy")
