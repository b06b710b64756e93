"""Copy large files that were just downloaded into the cache, while the body already runs."""

import threading
from collections.abc import Callable, Mapping, Sequence

from perago.errors import PeragoError, WorkspaceError
from perago.model import FilePath
from perago.workspace import diff, scan
from perago.workspace.cache import content_cache


class CacheBackfill:
    """One background thread. A file that the body changes or removes before its copy is complete is not cached.

    `verified` is called first: it waits until the files are verified, and returns the MD5s of those whose MD5 was not known. If
    it raises an error, nothing is cached.
    """

    def __init__(
        self,
        cache: content_cache.ContentCache,
        work: str,
        manifest: diff.Manifest,
        paths: Sequence[FilePath],
        verified: Callable[[], Mapping[FilePath, str]] = dict,
    ) -> None:
        self._verified = verified
        self._cache = cache
        self._work = work
        self._manifest = manifest
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(paths,), name="perago-cache", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until all files are copied."""
        self._thread.join()

    def stop(self) -> None:
        """Wait for the current file and skip the rest."""
        self._stopped.set()
        self._thread.join()

    def _fill(self, paths: Sequence[FilePath]) -> None:
        try:
            md5s = self._verified()
        except PeragoError:
            return  # the attempt fails with this error: it waits for the verification too
        for path in paths:
            if self._stopped.is_set():
                return
            entry = self._manifest[path]
            self._insert(path, entry._replace(md5=md5s.get(path, entry.md5)))

    def _insert(self, path: FilePath, entry: diff.FileEntry) -> None:
        def is_intact(_copy: str) -> bool:
            try:
                return entry.stat is not None and scan.is_unchanged(self._work, path, entry.stat)
            except WorkspaceError:
                return False

        if entry.md5 is not None:
            self._cache.insert(f"{self._work}/{path}", entry.md5, entry.size, is_intact=is_intact)
