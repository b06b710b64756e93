"""The one codec between object paths under a prefix and local relative paths, in both directions.

What cannot be mapped is a `WorkspaceError` that names the object or file; what must not be mapped (directory markers, Perago's
own marker, lakeFS's hook files) has no counterpart on the other side.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from perago.errors import WorkspaceError
from perago.model import MARKER_NAME, FilePath, ObjectInfo, ObjectPath

MAX_SEGMENT_BYTES = 255
"""NAME_MAX of every common Linux file system."""
MAX_OBJECT_BYTES = 1024
"""lakeFS refuses longer paths."""
HOOKS = "_lakefs_actions/"
"""lakeFS runs what it finds here as hooks on commit and merge, so a task neither sees nor writes it."""
REPLACEMENT = "\ufffd"
"""What lakeFS lists in place of bytes that are not UTF-8; such an object cannot be read by its listed name."""


def listing_prefix(prefix: str) -> str:
    """`/audio/render` as a listing needs it: `audio/render/`, so that `audio/render2/x` does not match; the root is empty."""
    inner = prefix.strip("/")
    if not inner:
        return ""
    if fault := _segment_fault(inner):
        raise WorkspaceError(f"workspace prefix {prefix!r} cannot be used: {fault}")
    return inner + "/"


def to_local(prefix: str, info: ObjectInfo) -> FilePath | None:
    """The local path of an object under `prefix` (as `listing_prefix` made it); None where it is not a business file."""
    path = info.path
    if not path.startswith(prefix):
        raise WorkspaceError(f"object {path!r} is not under the workspace prefix {prefix!r}")
    local = path[len(prefix) :]
    if _is_directory_marker(path, info.size) or local == MARKER_NAME or path.startswith(HOOKS):
        return None
    if fault := _fault(local):
        raise WorkspaceError(f"object {path!r} cannot be a local file: {fault}")
    return FilePath(local)


def to_object(prefix: str, local: FilePath) -> ObjectPath:
    """The object path of a business file; refuses what would not come back as the same file."""
    path = prefix + local
    if path.startswith(HOOKS):
        raise WorkspaceError(f"file {local!r} cannot be published: {HOOKS} holds lakeFS hooks and is not part of a workspace")
    if fault := _fault(local):
        raise WorkspaceError(f"file {local!r} cannot be published: {fault}")
    if (length := len(path.encode())) > MAX_OBJECT_BYTES:
        raise WorkspaceError(
            f"file {local!r} cannot be published: its object path has {length} bytes, lakeFS takes {MAX_OBJECT_BYTES}"
        )
    return ObjectPath(path)


def is_business(local: str) -> bool:
    """False for the one name at the workspace root that is Perago's own."""
    return local != MARKER_NAME


def _is_directory_marker(path: str, size: int) -> bool:
    return size == 0 and path.endswith("/")


def _fault(local: str) -> str | None:
    if REPLACEMENT in local:
        return "its name holds U+FFFD, which stands for bytes that are not UTF-8"
    return _segment_fault(local)


def _segment_fault(local: str) -> str | None:
    if "\0" in local:
        return "its name holds a NUL character"
    try:
        encoded = local.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    return next((fault for segment in encoded.split(b"/") if (fault := _one_segment_fault(segment))), None)


def _one_segment_fault(segment: bytes) -> str | None:
    if not segment:
        return "it begins or ends with '/' or has an empty segment"
    if segment in {b".", b".."}:
        return f"it has a {segment.decode()!r} segment"
    if len(segment) > MAX_SEGMENT_BYTES:
        return f"a segment of its name has {len(segment)} bytes, a file name can have {MAX_SEGMENT_BYTES}"
    return None


class Collisions:
    """Watches a growing set of local paths for two that one tree cannot hold: `a` beside `a/b`, or names equal after folding."""

    def __init__(self, *, folds: bool) -> None:
        self._folds = folds
        self._files: set[str] = set()
        self._directories: dict[str, str] = {}
        """Key as the file system compares it, to the spelling that was seen first."""

    def add(self, local: FilePath) -> Sequence[str]:
        """The directories that this file needs and no earlier one had, outermost first."""
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
    """Equal for names that a file system which folds case or normalises Unicode may take for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
