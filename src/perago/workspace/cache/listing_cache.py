"""Listings of commits that this host has downloaded before. A commit never changes, so they stay valid.

One file per repository, commit and prefix: one line of JSON per page of files, and a last line with the MD5 of all others.
"""

import contextlib
import hashlib
import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from perago.model import FilePath
from perago.workspace import diff
from perago.workspace.cache import content_cache

_PAGE = 1000
_FORMAT = 2
"""Part of every key. To be increased with the rules of `path_mapping`, because a saved listing was made by the old ones."""
_Record = tuple[str, int, str, str, str, dict[str, str]]


class ListedFile(NamedTuple):
    """One file of a commit. `checksum` is what lakeFS lists; `md5` is None until the content was read once."""

    path: FilePath
    size: int
    md5: str | None
    checksum: str
    content_type: str
    metadata: Mapping[str, str]
    presigned_url: str | None = None
    """Expires, so it is not saved."""


class ListingCache:
    """Stored in the directory of the content cache, counted against its limit and evicted with it."""

    def __init__(self, cache: content_cache.ContentCache) -> None:
        self._cache = cache

    def load(self, key: str) -> Iterator[list[ListedFile]] | None:
        """Pages of the listing, or None if it is missing or damaged."""
        if not self._cache.is_enabled:
            return None
        try:
            lines = self._path(key).open("rb")
        except OSError:
            return None
        if not _is_intact(lines):
            lines.close()
            return None
        os.utime(lines.fileno())
        return _pages(lines)

    def save(self, key: str, files: Iterable[ListedFile]) -> None:
        path = self._path(key)
        temporary = self._cache.root / "new" / uuid.uuid4().hex
        with contextlib.suppress(OSError):
            try:
                _write(temporary, files)
                path.parent.mkdir(mode=0o700, exist_ok=True)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
            self._cache.count_file(path.stat().st_size)

    def _path(self, key: str) -> Path:
        return self._cache.root / "listings" / key[:2] / key


def key(repository: str, commit: str, prefix: str) -> str:
    return hashlib.sha256(f"{_FORMAT}\0{repository}\0{commit}\0{prefix}".encode()).hexdigest()


def _write(path: Path, files: Iterable[ListedFile]) -> None:
    checksum = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as out:
        for page in _in_pages(files):
            line = json.dumps([file[:-1] for file in page], ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
            checksum.update(line)
            out.write(line)
        out.write(checksum.hexdigest().encode() + b"\n")


def _in_pages(files: Iterable[ListedFile]) -> Iterator[list[ListedFile]]:
    page: list[ListedFile] = []
    for file in files:
        page.append(file)
        if len(page) == _PAGE:
            yield page
            page = []
    yield page


def _is_intact(lines: BinaryIO) -> bool:
    checksum = hashlib.md5(usedforsecurity=False)
    last = b""
    for line in lines:
        checksum.update(last)
        last = line
    lines.seek(0)
    return last == checksum.hexdigest().encode() + b"\n"


def _pages(lines: BinaryIO) -> Iterator[list[ListedFile]]:
    with lines:
        for line in lines:
            if line.startswith(b"["):
                yield [_listed_file(record) for record in cast("list[_Record]", json.loads(line))]


def _listed_file(record: _Record) -> ListedFile:
    path, size, md5, checksum, content_type, metadata = record
    return ListedFile(FilePath(path), size, md5, checksum, sys.intern(content_type), metadata or diff.NO_METADATA)
