"""Large files that were just downloaded in, copies of them in the cache out, while the body already runs."""

import threading
from collections.abc import Sequence

from perago.errors import WorkspaceError
from perago.model import FilePath
from perago.workspace import diff, scan
from perago.workspace.cache import content_cache


class Filling:
    """One thread. A file that the body changes or removes before or while it is copied is not kept."""

    def __init__(self, store: content_cache.Cache, work: str, manifest: diff.Manifest, paths: Sequence[FilePath]) -> None:
        self._store = store
        self._work = work
        self._manifest = manifest
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(paths,), name="perago-cache", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until everything is copied."""
        self._thread.join()

    def give_up(self) -> None:
        """Wait for the file at hand and leave the rest."""
        self._given_up.set()
        self._thread.join()

    def _fill(self, paths: Sequence[FilePath]) -> None:
        for path in paths:
            if self._given_up.is_set():
                return
            self._keep(path, self._manifest[path])

    def _keep(self, path: FilePath, entry: diff.Entry) -> None:
        def is_right(_copy: str) -> bool:
            try:
                return entry.stat is not None and scan.is_unchanged(self._work, path, entry.stat)
            except WorkspaceError:
                return False

        if entry.md5 is not None:
            self._store.insert(f"{self._work}/{path}", entry.md5, entry.size, is_right=is_right)
