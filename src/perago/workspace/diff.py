"""Two manifests in, one `Change` out: what has to be uploaded and deleted so that the store equals the local directory."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import NamedTuple

from perago.model import FilePath
from perago.workspace import scan

CONTENT_TYPE = "application/octet-stream"
"""Of every new file. Guessing would make it depend on the host, and lakeFS counts a changed content type as a changed object."""
EXECUTABLE_KEY = "perago-executable"
"""User metadata of an executable file; absent means not executable."""
EXECUTABLE_VALUE = "true"
NO_METADATA: Mapping[str, str] = {}


class Entry(NamedTuple):
    """One file of a manifest. A tuple, because a workspace may hold 100,000 of them."""

    size: int
    md5: str | None
    """Of the content; None where nothing but a new upload can come of it, so nobody needs it."""
    stat: scan.FileStat | None
    """As it was when `md5` was true; None where it cannot be trusted to tell a change."""
    executable: bool
    """As the local file system shows it; one that cannot hold the bit never reports a change of it."""
    content_type: str = CONTENT_TYPE
    metadata: Mapping[str, str] = NO_METADATA


Manifest = Mapping[FilePath, Entry]


class Upload(NamedTuple):
    path: FilePath
    size: int
    stat: scan.FileStat
    content_type: str
    metadata: Mapping[str, str]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Change:
    """In order of paths, so that the same work leads to the same requests."""

    uploads: Sequence[Upload] = ()
    deletes: Sequence[FilePath] = ()

    @property
    def is_empty(self) -> bool:
        return not self.uploads and not self.deletes

    @property
    def upload_bytes(self) -> int:
        return sum(upload.size for upload in self.uploads)


Digest = Callable[[FilePath, scan.FileStat], str]


def is_executable(metadata: Mapping[str, str]) -> bool:
    return metadata.get(EXECUTABLE_KEY) == EXECUTABLE_VALUE


def survey(before: Manifest, found: scan.Scan, digest: Digest) -> Manifest:
    """The manifest of what was found. Content is read only where size is equal and stat data cannot vouch for it."""
    suspects = [path for path, status in found.files.items() if _needs_digest(before.get(path), status)]
    digests = _digests(suspects, found, digest)
    return {path: _entry(before.get(path), status, digests.get(path)) for path, status in found.files.items()}


def _needs_digest(old: Entry | None, status: scan.FileStat) -> bool:
    return old is not None and old.size == status.size and old.stat != status


def _digests(suspects: Sequence[FilePath], found: scan.Scan, digest: Digest) -> Mapping[FilePath, str]:
    """One future per core and not per file: hashing leaves the interpreter lock, and 100,000 futures would not be small."""

    def share(first: int) -> dict[FilePath, str]:
        return {path: digest(path, found.files[path]) for path in suspects[first::cores]}

    cores = min(len(suspects), os.cpu_count() or 1)
    if cores < 2:  # noqa: PLR2004
        return {path: digest(path, found.files[path]) for path in suspects}
    with futures.ThreadPoolExecutor(max_workers=cores) as pool:
        return {path: md5 for part in pool.map(share, range(cores)) for path, md5 in part.items()}


def _entry(old: Entry | None, status: scan.FileStat, md5: str | None) -> Entry:
    if old is None:
        return Entry(status.size, None, status, status.executable)
    if md5 is None and old.stat == status:
        return old
    return Entry(status.size, md5, status, status.executable, old.content_type, old.metadata)


def diff(before: Manifest, after: Manifest) -> Change:
    uploads = [
        _upload(path, before.get(path), entry) for path, entry in sorted(after.items()) if _differs(before.get(path), entry)
    ]
    return Change(uploads, sorted(before.keys() - after.keys()))


def _differs(old: Entry | None, new: Entry) -> bool:
    if old is new:
        return False
    return old is None or new.md5 is None or (old.size, old.md5, old.executable) != (new.size, new.md5, new.executable)


def _upload(path: FilePath, old: Entry | None, new: Entry) -> Upload:
    """An edited file keeps its content type and user metadata: a task has no means to set them again."""
    metadata = new.metadata
    if new.executable != (old is not None and old.executable):
        metadata = {key: value for key, value in metadata.items() if key != EXECUTABLE_KEY}
        if new.executable:
            metadata[EXECUTABLE_KEY] = EXECUTABLE_VALUE
    if new.stat is None:
        raise AssertionError(f"a surveyed file has stat data: {path}")
    return Upload(path, new.size, new.stat, new.content_type, metadata, is_new=old is None)
