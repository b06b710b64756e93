"""The conformance suite of the lake on the folder lake: it stores bytes in plain files, and nothing else may differ."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.lake.test_conformance_branches import *  # noqa: F403 - its tests run here, with the fixture below
from tests.lake.test_conformance_objects import *  # noqa: F403
from tests.support.lake_sites import MemorySite

from perago.local_run.folder_lake import REPOSITORY, FolderLake
from perago.model import BranchName, CommitId, ObjectPath


class FolderSite(MemorySite):
    def __init__(self, room: Path) -> None:
        (room / "store").mkdir()
        self.lake = self.memory = self.folder = FolderLake({}, room / "store")
        self.repository = REPOSITORY
        self._source = room / "source"

    def put(self, branch: str, path: str, data: bytes, content_type: str = "text/plain") -> None:
        self._source.write_bytes(data)
        self.lake.write(REPOSITORY, BranchName(branch), ObjectPath(path), self._source, content_type=content_type, metadata={})

    def publish(self, branch: str, files: Mapping[str, bytes], message: str = "made by hand") -> CommitId:
        for path, data in files.items():
            self.put(branch, path, data)
        return self.lake.commit_branch(REPOSITORY, BranchName(branch), message, {}).id

    def content(self, ref: str) -> dict[str, bytes]:
        return {str(path): held.at.read_bytes() for path, held in self.folder.held(CommitId(ref)).items()}


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> FolderSite:
    return FolderSite(tmp_path_factory.mktemp("folder"))
