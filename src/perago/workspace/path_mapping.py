"""Mapping between object paths under a prefix and relative local paths, in both directions.

A name that cannot be mapped raises a `WorkspaceError` that names the object or file. Directory markers, Perago's own marker and
lakeFS's hook files are never mapped.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from perago.errors import WorkspaceError
from perago.model import FilePath, ObjectInfo, ObjectPath, is_marker

MAX_SEGMENT_BYTES = 255
"""NAME_MAX of the common Linux file systems."""
MAX_OBJECT_BYTES = 1024
"""lakeFS rejects longer paths."""
HOOKS_PREFIX = "_lakefs_actions/"
"""lakeFS runs the files under this prefix as hooks on commit and merge, so a task can neither read nor write them."""
REPLACEMENT = "\ufffd"
"""lakeFS lists this character for bytes that are not UTF-8; such an object cannot be read by its listed name."""


def listing_prefix(prefix: str) -> str:
    """The prefix for listings: `audio/render/` for `/audio/render`, so that `audio/render2/x` does not match; `` for the root."""
    inner = prefix.strip("/")
    if not inner:
        return ""
    if problem := _segments_problem(inner):
        raise WorkspaceError(f"workspace prefix {prefix!r} cannot be used: {problem}")
    return inner + "/"


def to_local(prefix: str, info: ObjectInfo) -> FilePath | None:
    """The local path of an object under `prefix` (see `listing_prefix`); None if it is not a file of the workspace."""
    path = info.path
    if not path.startswith(prefix):
        raise WorkspaceError(f"object {path!r} is not under the workspace prefix {prefix!r}")
    local = path[len(prefix) :]
    if _is_directory_marker(path, info.size) or is_marker(local) or path.startswith(HOOKS_PREFIX):
        return None
    if problem := _name_problem(local):
        raise WorkspaceError(f"object {path!r} cannot be a local file: {problem}")
    return FilePath(local)


def to_object(prefix: str, local: FilePath) -> ObjectPath:
    """The object path of a file; `WorkspaceError` for a name that would not be downloaded as the same file."""
    path = prefix + local
    if path.startswith(HOOKS_PREFIX):
        raise WorkspaceError(
            f"file {local!r} cannot be published: {HOOKS_PREFIX} contains lakeFS hooks and is not part of a workspace"
        )
    if problem := _name_problem(local):
        raise WorkspaceError(f"file {local!r} cannot be published: {problem}")
    if (length := len(path.encode())) > MAX_OBJECT_BYTES:
        raise WorkspaceError(
            f"file {local!r} cannot be published: its object path has {length} bytes, lakeFS accepts {MAX_OBJECT_BYTES}"
        )
    return ObjectPath(path)


def _is_directory_marker(path: str, size: int) -> bool:
    return size == 0 and path.endswith("/")


def _name_problem(local: str) -> str | None:
    if REPLACEMENT in local:
        return "its name contains U+FFFD, which replaces bytes that are not UTF-8"
    return _segments_problem(local)


def _segments_problem(local: str) -> str | None:
    if "\0" in local:
        return "its name contains a NUL character"
    try:
        encoded = local.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    return next((problem for segment in encoded.split(b"/") if (problem := _segment_problem(segment))), None)


def _segment_problem(segment: bytes) -> str | None:
    if not segment:
        return "it begins or ends with '/' or has an empty segment"
    if segment in {b".", b".."}:
        return f"it has a {segment.decode()!r} segment"
    if len(segment) > MAX_SEGMENT_BYTES:
        return f"a segment of its name has {len(segment)} bytes, a file name can have {MAX_SEGMENT_BYTES}"
    return None


class CollisionDetector:
    """Raises `WorkspaceError` for two paths that one directory cannot hold: `a` and `a/b`, or names equal after folding."""

    def __init__(self, *, folds: bool) -> None:
        self._folds = folds
        self._files: set[str] = set()
        self._directories: dict[str, str] = {}
        """Folded path to the spelling that was seen first."""

    def add(self, local: FilePath) -> Sequence[str]:
        """Returns the parent directories that no earlier file had, outermost first."""
        key = self._key(local)
        if key in self._files:
            raise WorkspaceError(
                f"object {local!r} and another one are the same file name on this file system, which folds case or accents"
            )
        if key in self._directories:
            raise WorkspaceError(f"object {local!r} is a file and a directory at once: an object below it exists too")
        self._files.add(key)
        end = local.rfind("/")
        if end < 0 or (not self._folds and local[:end] in self._directories):
            return ()
        parts = local[:end].split("/")
        needed = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return [new for directory in needed for new in self._new_directory(directory, local)]

    def _new_directory(self, directory: str, local: str) -> Iterator[str]:
        key = self._key(directory)
        if key in self._files:
            raise WorkspaceError(f"object {directory!r} is a file and a directory at once: {local!r} exists too")
        seen = self._directories.get(key)
        if seen is None:
            self._directories[key] = directory
            yield directory
        elif seen != directory:
            raise WorkspaceError(f"object {local!r}: {directory!r} and {seen!r} are the same directory on this file system")

    def _key(self, path: str) -> str:
        return fold(path) if self._folds else path


def fold(path: str) -> str:
    """Equal for names that are the same file where the file system folds case or normalises Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
