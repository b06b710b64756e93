"""Where the workspace engine keeps its files and how much it does at once."""

from dataclasses import dataclass
from pathlib import Path

from perago.workspace.cache import content_cache

CACHE_NAME = ".cache"


@dataclass(frozen=True, slots=True)
class Options:
    root: Path
    """Attempt directories are made here; should be on the same file system as the cache, so that copies can share blocks."""
    cache_root: Path | None = None
    """The content cache of this host; inside `root` unless told otherwise."""
    cache_bytes: int = content_cache.DEFAULT_LIMIT
    """0 turns the cache off."""
    light_transfers: int = 16
    """Transfers of small objects at once: bound by round trips, then by the interpreter."""
    heavy_transfers: int = 4
    """Transfers of large objects at once: bound by hashing and by the disk."""

    def make_cache(self) -> content_cache.Cache:
        return content_cache.Cache(self.cache_root or self.root / CACHE_NAME, self.cache_bytes)
