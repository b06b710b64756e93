"""The files that a publication adds, changes or deletes, and the differing lines of small text files."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from perago.local_run.folder_lake import Stored
from perago.model import FilePath, ObjectPath

TEXT_LIMIT = 64_000
"""Above this many bytes a file is shown by its size only."""


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One business file that a publication adds, changes or deletes."""

    path: FilePath
    before: Stored | None
    after: Stored | None

    @property
    def kind(self) -> ChangeKind:
        if self.before is None:
            return ChangeKind.ADDED
        return ChangeKind.DELETED if self.after is None else ChangeKind.CHANGED


def between(given: Mapping[ObjectPath, Stored], published: Mapping[ObjectPath, Stored], prefix: str) -> tuple[FileChange, ...]:
    """In path order. `prefix` ends in `/` or is empty; paths outside it never differ."""
    return tuple(
        FileChange(FilePath(path.removeprefix(prefix)), given.get(path), published.get(path))
        for path in sorted(given.keys() | published.keys())
        if given.get(path) != published.get(path)
    )


def unified(change: FileChange) -> list[str] | None:
    """The lines of a unified diff without its two header lines; None where a side is large or is not text."""
    before, after = _lines(change.before), _lines(change.after)
    if before is None or after is None:
        return None
    return [line.rstrip("\n") for line in difflib.unified_diff(before, after, n=2)][2:]


def _lines(stored: Stored | None) -> list[str] | None:
    if stored is None:
        return []
    if stored.size > TEXT_LIMIT:
        return None
    try:
        text = stored.at.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.splitlines(keepends=True)
