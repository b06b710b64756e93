"""Listings of commits that this host has downloaded before. A commit never changes, so a second attempt need not ask again.

One file per repository, commit and prefix: lines of JSON, a page of files each, and a last line with the MD5 of all before it.
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
_Record = tuple[str, int, str, str, str, dict[str, str]]


class Known(NamedTuple):
    """One file of a commit. `checksum` is lakeFS's word for the content, `md5` ours (None until it was read once)."""

    path: FilePath
    size: int
    md5: str | None
    checksum: str
    content_type: str
    metadata: Mapping[str, str]
    presigned_url: str | None = None
    """Good for a while only, so it is not kept."""


class Listings:
    """Lives in the cache's directory, counts against its limit and is trimmed with it."""

    def __init__(self, store: content_cache.Cache) -> None:
        self._store = store

    def load(self, key: str) -> Iterator[list[Known]] | None:
        """Pages of the listing, or None if it is not here or damaged."""
        if not self._store.is_on:
            return None
        try:
            lines = self._path(key).open("rb")
        except OSError:
            return None
        if not _is_sound(lines):
            lines.close()
            return None
        os.utime(lines.fileno())
        return _pages(lines)

    def save(self, key: str, files: Iterable[Known]) -> None:
        path = self._path(key)
        temporary = self._store.root / "new" / uuid.uuid4().hex
        with contextlib.suppress(OSError):
            try:
                _write(temporary, files)
                path.parent.mkdir(mode=0o700, exist_ok=True)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
            self._store.count(path.stat().st_size)

    def _path(self, key: str) -> Path:
        return self._store.root / "listings" / key[:2] / key


def key(repository: str, commit: str, prefix: str) -> str:
    return hashlib.sha256(f"{repository}\0{commit}\0{prefix}".encode()).hexdigest()


def _write(path: Path, files: Iterable[Known]) -> None:
    checksum = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as out:
        for page in _in_pages(files):
            line = json.dumps([file[:-1] for file in page], ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
            checksum.update(line)
            out.write(line)
        out.write(checksum.hexdigest().encode() + b"\n")


def _in_pages(files: Iterable[Known]) -> Iterator[list[Known]]:
    page: list[Known] = []
    for file in files:
        page.append(file)
        if len(page) == _PAGE:
            yield page
            page = []
    yield page


def _is_sound(lines: BinaryIO) -> bool:
    checksum = hashlib.md5(usedforsecurity=False)
    held = b""
    for line in lines:
        checksum.update(held)
        held = line
    lines.seek(0)
    return held == checksum.hexdigest().encode() + b"\n"


def _pages(lines: BinaryIO) -> Iterator[list[Known]]:
    with lines:
        for line in lines:
            if line.startswith(b"["):
                yield [_known(record) for record in cast("list[_Record]", json.loads(line))]


def _known(record: _Record) -> Known:
    path, size, md5, checksum, content_type, metadata = record
    return Known(FilePath(path), size, md5, checksum, sys.intern(content_type), metadata or diff.NO_METADATA)
