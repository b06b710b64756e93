"""A versioned store over plain files: a folder's files go in as the input commit, what the target branch holds comes out.

The rules are those of the store in memory; the bytes stay on disk. The folder is only read, uploads are copied to a store beside.
"""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.errors import LakeCorrupt, WorkspaceError
from perago.lake import port
from perago.model import BranchName, ObjectInfo, ObjectPath, Repository
from perago.testing import lake, trees
from perago.workspace import sync, tree

REPOSITORY = Repository("local")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes on disk."""

    at: Path
    size: int
    checksum: str
    executable: bool = False


class FolderLake(lake.MemoryLake):
    """One repository with `files` on its default branch; `store` is an empty directory of the caller's for what is uploaded."""

    def __init__(self, files: Mapping[ObjectPath, Path], store: Path) -> None:
        super().__init__()
        self._uploads = store
        self._names = itertools.count()
        self._files: dict[str, Path] = {}
        self.start = self.create_repository(REPOSITORY).id
        if files:
            staged = self._writable(REPOSITORY, lake.MAIN, "read the folder").staged
            staged.update({path: self._given(at, number) for number, (path, at) in enumerate(files.items())})
            self.start = self._commit_staged(REPOSITORY, lake.MAIN, "the folder as it was given", {}).id

    def given(self) -> dict[ObjectPath, Stored]:
        """What the input commit holds."""
        return self._held(self.start)

    def published(self) -> dict[ObjectPath, Stored]:
        """What the target branch holds now."""
        return self._held(lake.MAIN)

    def read(self, repository: Repository, ref: port.Ref, info: ObjectInfo, into: Path) -> str:
        self._enter("read")
        digest, size = _copy(self._files[self._entry(repository, ref, info.path).checksum], into)
        if size != info.size:
            into.unlink()
            raise LakeCorrupt(f"{info.path!r} has {size} bytes now and had {info.size}: the folder changed while it was copied")
        self.gate("read", lake.Step.AFTER)
        return digest

    def write(
        self,
        repository: Repository,
        branch: BranchName,
        path: ObjectPath,
        source: Path,
        *,
        content_type: str,
        metadata: Mapping[str, str],
    ) -> ObjectInfo:
        self._enter("write")
        at = self._new_file()
        digest, size = _copy(source, at)
        with self._lock:
            self._files[digest] = at
            entry = trees.Entry(size, digest, content_type, tuple(sorted(metadata.items())))
            self._writable(repository, branch, f"write {path!r}").staged[path] = entry
        self.gate("write", lake.Step.AFTER)
        return entry.info(path)

    def _given(self, at: Path, number: int) -> trees.Entry:
        # Not an MD5, as with a multipart upload: hashing every byte for the listing would cost as much as the copy itself.
        checksum = f"folder-{number}"
        self._files[checksum] = at
        status = tree.file_stat(at.stat())
        metadata = ((sync.EXECUTABLE_KEY, sync.EXECUTABLE_VALUE),) if status.executable else ()
        return trees.Entry(status.size, checksum, sync.CONTENT_TYPE, metadata)

    def _held(self, ref: port.Ref) -> dict[ObjectPath, Stored]:
        held = self._store(REPOSITORY).tree(ref)
        return {path: self._stored(held.entries[path]) for path in held.paths}

    def _stored(self, entry: trees.Entry) -> Stored:
        return Stored(self._files[entry.checksum], entry.size, entry.checksum, sync.is_executable(dict(entry.metadata)))

    def _new_file(self) -> Path:
        with self._lock:
            return self._uploads / f"{next(self._names):08d}"


def _copy(source: Path, into: Path) -> tuple[str, int]:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    try:
        with source.open("rb") as reader, into.open("xb") as writer:
            while chunk := reader.read(_CHUNK):
                digest.update(chunk)
                size += writer.write(chunk)
    except OSError as error:
        raise WorkspaceError(f"cannot copy {source}: {error.strerror}") from error
    return digest.hexdigest(), size
