"""Options of local workspaces: directories, cache size and number of parallel transfers."""

from dataclasses import dataclass
from pathlib import Path

from perago.workspace.cache import content_cache

CACHE_NAME = ".cache"


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    root: Path
    """Parent of the attempt directories; best on the same file system as the cache, so that copies can share blocks."""
    cache_root: Path | None = None
    """The content cache of this host; by default inside `root`."""
    cache_bytes: int = content_cache.DEFAULT_LIMIT
    """0 turns the cache off."""
    light_transfers: int = 16
    """Parallel transfers of small objects: limited by round trips, then by the interpreter."""
    heavy_transfers: int = 4
    """Parallel transfers of large objects, or of parts of them: limited by the disk and the cores."""

    def make_cache(self) -> content_cache.ContentCache:
        return content_cache.ContentCache(self.cache_root or self.root / CACHE_NAME, self.cache_bytes)
