"""Move large files that were uploaded into the cache when their workspace is deleted: a copy would cost more than the upload."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from perago.model import FilePath
from perago.workspace import read_lease, scan
from perago.workspace.cache import content_cache


class UploadedFile(NamedTuple):
    """A file whose bytes lakeFS has. `stat` is from before the upload, and shows every later change."""

    path: FilePath
    size: int
    md5: str
    stat: scan.FileStat


def adopt(cache: content_cache.ContentCache, work: str, files: Sequence[UploadedFile]) -> None:
    """Files that were changed since, or that something can still write to, are left out."""
    for file in files:
        try:
            source = os.open(f"{work}/{file.path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            _adopt(cache, source, f"{work}/{file.path}", file)
        finally:
            os.close(source)


def _adopt(cache: content_cache.ContentCache, source: int, path: str, file: UploadedFile) -> None:
    has_writers = not read_lease.take(source)
    status = os.fstat(source)
    if scan.file_stat(status) != file.stat or status.st_nlink != 1:
        return
    if has_writers or not cache.adopt(source, path, file.md5, file.size):
        cache.insert(path, file.md5, file.size, is_intact=lambda copy: content_cache.has_md5(copy, file.md5))
