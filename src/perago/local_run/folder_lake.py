"""A versioned store over plain files: a folder is the input commit, and the target branch has what was published.

It follows the rules of the store in memory, but the bytes stay on disk. The folder is only read; uploads are copied.
"""

import hashlib
import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from perago.errors import WorkspaceError
from perago.http.request import ReplyHead
from perago.in_memory import lake, trees
from perago.lake import port, transfer
from perago.model import CommitId, ObjectInfo, ObjectPath, Repository
from perago.workspace import diff, scan

REPOSITORY = Repository("local")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes on disk."""

    at: Path
    size: int
    checksum: str
    executable: bool = False


class FilesOnDisk:
    """Implements `StoredBytes`: files where they are, and uploads as new files in `directory`, which is empty at first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = itertools.count()
        self._files: dict[str, Path] = {}
        self._lock = threading.Lock()

    def keep(self, data: bytes) -> str:
        at = self._new_file()
        try:
            at.write_bytes(data)
        except OSError as error:
            raise WorkspaceError(f"cannot write {at}: {error.strerror}") from error
        return self._add(hashlib.md5(data, usedforsecurity=False).hexdigest(), at)

    def keep_file(self, what: str, path: ObjectPath, source: Path) -> tuple[int, str]:
        with transfer.upload(source) as checked:
            size = checked.size
        at = self._new_file()
        return size, self._add(_copy(what, source, ObjectInfo(path, size, ""), at), at)

    def load(self, checksum: str) -> bytes:
        at = self._files[checksum]
        try:
            return at.read_bytes()
        except OSError as error:
            raise WorkspaceError(f"cannot read {at}: {error.strerror}") from error

    def save(self, what: str, checksum: str, info: ObjectInfo, into: Path) -> str:
        return _copy(what, self._files[checksum], info, into)

    def given(self, path: ObjectPath, at: Path) -> ObjectInfo:
        """A file that stays where it is, as an object."""
        # Not an MD5, as with a multipart upload: hashing every byte for the listing would cost as much as the copy itself.
        checksum = f"folder-{next(self._names)}"
        self._files[checksum] = at
        status = scan.file_stat(at.stat())
        metadata = {diff.EXECUTABLE_KEY: diff.EXECUTABLE_VALUE} if status.executable else {}
        return ObjectInfo(path, status.size, checksum, diff.CONTENT_TYPE, metadata)

    def stored(self, entry: trees.TreeEntry) -> Stored:
        return Stored(self._files[entry.checksum], entry.size, entry.checksum, diff.is_executable(dict(entry.metadata)))

    def _new_file(self) -> Path:
        with self._lock:
            return self._directory / f"{next(self._names):08d}"

    def _add(self, checksum: str, at: Path) -> str:
        with self._lock:
            self._files[checksum] = at
        return checksum


class FolderLake(lake.MemoryLake):
    """One repository with `files` on its default branch; uploads are kept in `store`, an empty directory."""

    def __init__(self, files: Mapping[ObjectPath, Path], store: Path) -> None:
        self._on_disk = FilesOnDisk(store)
        super().__init__(stored=self._on_disk)
        self.start = self.create_repository(REPOSITORY).id
        if files:
            for path, at in files.items():
                self._upload(REPOSITORY, lake.MAIN, self._on_disk.given(path, at))
            self.start = self._commit_staged(REPOSITORY, lake.MAIN, "the folder as it was given", {}).id

    def capabilities(self) -> port.Capabilities:
        return replace(super().capabilities(), parts=False)

    def given(self) -> dict[ObjectPath, Stored]:
        """What the input commit holds."""
        return self.held(self.start)

    def published(self) -> dict[ObjectPath, Stored]:
        """What the target branch holds now."""
        return self.held(lake.MAIN)

    def differing(self, left: CommitId, right: CommitId) -> tuple[dict[ObjectPath, Stored], dict[ObjectPath, Stored]]:
        """What each of two commits holds of the objects that differ between them."""
        trees_of = [self._store(REPOSITORY).tree(commit).entries for commit in (left, right)]
        paths = [one.path for one in self.differences(REPOSITORY, left, right)]
        before, after = ({path: self._on_disk.stored(entries[path]) for path in paths if path in entries} for entries in trees_of)
        return before, after

    def held(self, ref: port.Ref) -> dict[ObjectPath, Stored]:
        """What a branch or commit holds."""
        held = self._store(REPOSITORY).tree(ref)
        return {path: self._on_disk.stored(held.entries[path]) for path in held.paths}


def _copy(what: str, source: Path, info: ObjectInfo, into: Path) -> str:
    """Copy as a download does: the new file exists afterwards only if its bytes are the announced ones. Returns their MD5."""
    try:
        file = source.open("rb")
    except OSError as error:
        raise WorkspaceError(f"cannot read {source}: {error.strerror}") from error
    with file:
        return transfer.save(what, info, into)(ReplyHead(200, {}, None), _parts(file))


def _parts(file: BinaryIO) -> Iterator[memoryview]:
    while part := file.read(_CHUNK):
        yield memoryview(part)
