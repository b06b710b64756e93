"""Compare the workspace directory with what was downloaded: which files must be uploaded or deleted to publish it."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import NamedTuple

from perago.model import ChangeCounts, FilePath
from perago.workspace import scan

CONTENT_TYPE = "application/octet-stream"
"""Content type of every new file. Guessing it would depend on the host, and lakeFS treats a new content type as a change."""
EXECUTABLE_KEY = "perago-executable"
"""Key of the user metadata that marks an executable file; absent means not executable."""
EXECUTABLE_VALUE = "true"
NO_METADATA: Mapping[str, str] = {}


class FileEntry(NamedTuple):
    """One file of a manifest. A tuple, because a workspace may hold 100,000 of them."""

    size: int
    md5: str | None
    """Of the content; None where the file is uploaded whatever its MD5 is."""
    stat: scan.FileStat | None
    """When `md5` was computed; None where it cannot be relied on to detect a change."""
    executable: bool
    """As the local file system reports it; on one without this bit it never differs."""
    content_type: str = CONTENT_TYPE
    metadata: Mapping[str, str] = NO_METADATA


Manifest = Mapping[FilePath, FileEntry]


class FileUpload(NamedTuple):
    path: FilePath
    size: int
    stat: scan.FileStat
    content_type: str
    metadata: Mapping[str, str]
    is_new: bool
    md5: str | None = None
    """None where the comparison did not need it."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What to upload and delete, sorted by path so that the requests are deterministic."""

    uploads: Sequence[FileUpload] = ()
    deletes: Sequence[FilePath] = ()

    @property
    def is_empty(self) -> bool:
        return not self.uploads and not self.deletes

    @property
    def upload_bytes(self) -> int:
        return sum(upload.size for upload in self.uploads)

    @property
    def counts(self) -> ChangeCounts:
        added = sum(upload.is_new for upload in self.uploads)
        return ChangeCounts(added, len(self.uploads) - added, len(self.deletes), self.upload_bytes)


Digest = Callable[[FilePath, scan.FileStat], str]


def is_executable(metadata: Mapping[str, str]) -> bool:
    return metadata.get(EXECUTABLE_KEY) == EXECUTABLE_VALUE


def build_manifest(before: Manifest, found: scan.ScanResult, digest: Digest) -> Manifest:
    """The manifest of a scanned directory. Hashes a file only if its size is unchanged but its other stat data is not."""
    candidates = [path for path, status in found.files.items() if _needs_digest(before.get(path), status)]
    digests = _digests(candidates, found, digest)
    return {path: _entry(before.get(path), status, digests.get(path)) for path, status in found.files.items()}


def _needs_digest(old: FileEntry | None, status: scan.FileStat) -> bool:
    return old is not None and old.size == status.size and old.stat != status


def _digests(candidates: Sequence[FilePath], found: scan.ScanResult, digest: Digest) -> Mapping[FilePath, str]:
    """One future per core, not per file: hashing releases the interpreter lock, and 100,000 futures take much memory."""

    def share(first: int) -> dict[FilePath, str]:
        return {path: digest(path, found.files[path]) for path in candidates[first::cores]}

    cores = min(len(candidates), os.cpu_count() or 1)
    if cores < 2:  # noqa: PLR2004
        return {path: digest(path, found.files[path]) for path in candidates}
    with futures.ThreadPoolExecutor(max_workers=cores) as pool:
        return {path: md5 for part in pool.map(share, range(cores)) for path, md5 in part.items()}


def _entry(old: FileEntry | None, status: scan.FileStat, md5: str | None) -> FileEntry:
    if old is None:
        return FileEntry(status.size, None, status, status.executable)
    if md5 is None and old.stat == status:
        return old
    return FileEntry(status.size, md5, status, status.executable, old.content_type, old.metadata)


def diff(before: Manifest, after: Manifest) -> FileChanges:
    """The changes that turn `before` into `after`."""
    uploads = [
        _upload(path, before.get(path), entry) for path, entry in sorted(after.items()) if _differs(before.get(path), entry)
    ]
    return FileChanges(uploads, sorted(before.keys() - after.keys()))


def _differs(old: FileEntry | None, new: FileEntry) -> bool:
    if old is new:
        return False
    return old is None or new.md5 is None or (old.size, old.md5, old.executable) != (new.size, new.md5, new.executable)


def _upload(path: FilePath, old: FileEntry | None, new: FileEntry) -> FileUpload:
    """An edited file keeps its content type and user metadata, because a body cannot set them."""
    metadata = new.metadata
    if new.executable != (old is not None and old.executable):
        metadata = {key: value for key, value in metadata.items() if key != EXECUTABLE_KEY}
        if new.executable:
            metadata[EXECUTABLE_KEY] = EXECUTABLE_VALUE
    if new.stat is None:
        raise AssertionError(f"a scanned file has stat data: {path}")
    return FileUpload(path, new.size, new.stat, new.content_type, metadata, is_new=old is None, md5=new.md5)
