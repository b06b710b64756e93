"""The content of a fake repository: immutable trees in, changed and merged trees out. No I/O, no branches, no commits."""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from perago.errors import LakeConflict
from perago.lake.port import ChangeType, ObjectChange, ObjectDifference
from perago.model import MetaRangeId, ObjectInfo, ObjectPath

_RING = 1 << 256


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What makes an object the same object to lakeFS; when it was written, and which upload it came by, is no part of that."""

    size: int
    checksum: str
    content_type: str
    metadata: tuple[tuple[str, str], ...]
    mtime: int = field(default=0, compare=False)
    upload: int = field(default=0, compare=False)

    def info(self, path: ObjectPath) -> ObjectInfo:
        return ObjectInfo(path, self.size, self.checksum, self.content_type, dict(self.metadata), self.mtime)


Changes = Mapping[ObjectPath, TreeEntry | None]
"""Objects written and, as None, objects deleted."""


class Tree:
    """Paths and their entries, never changed in place. Its id depends on nothing but its content, as in lakeFS."""

    def __init__(self, entries: Mapping[ObjectPath, TreeEntry], total: int | None = None) -> None:
        self.entries = entries
        self._total = total

    @cached_property
    def id(self) -> MetaRangeId:
        """Empty for the tree of a repository's first commit, and for no other, emptied ones included: so it is in lakeFS."""
        return MetaRangeId("" if self._total is None else hashlib.sha256(str(self._total).encode()).hexdigest())

    @cached_property
    def paths(self) -> list[ObjectPath]:
        """In byte order of UTF-8, which is the order of code points."""
        return sorted(self.entries)

    def apply(self, changes: Changes) -> "Tree":
        """A tree's hash is the sum of its entries' hashes, so the cost follows what changed."""
        entries = dict(self.entries)
        total = self._total or 0
        for path, entry in changes.items():
            old = entries.pop(path, None)
            total -= 0 if old is None else _hash(path, old)
            if entry is not None:
                entries[path] = entry
                total += _hash(path, entry)
        return Tree(entries, total % _RING)

    def differences(self, changes: Changes) -> list[ObjectChange]:
        """What `changes` really change, in path order: writing the same again, or deleting nothing, is no change."""
        return [
            ObjectChange(path, kind)
            for path in sorted(changes)
            if (kind := _kind(self.entries.get(path), changes[path])) is not None
        ]


EMPTY = Tree({})


def compare(left: Tree, right: Tree) -> list[ObjectDifference]:
    """What has to change in `left` to get `right`, in path order."""
    kinds = (
        (path, _kind(left.entries.get(path), right.entries.get(path))) for path in left.entries.keys() | right.entries.keys()
    )
    found = [_difference(path, kind, left, right) for path, kind in kinds if kind is not None]
    return sorted(found, key=lambda one: one.path)


def _difference(path: ObjectPath, kind: ChangeType, left: Tree, right: Tree) -> ObjectDifference:
    if kind is ChangeType.REMOVED:
        return ObjectDifference(path, kind, left.entries[path].size)
    entry = right.entries[path]
    return ObjectDifference(path, kind, entry.size, entry.checksum, entry.content_type, dict(entry.metadata))


def merge(base: Tree, source: Tree, target: Tree) -> Tree:
    """Three-way merge the way lakeFS is documented to do it; `LakeConflict` for no changes and for conflicts."""
    if source.id == base.id:
        raise LakeConflict("merge: no changes")
    if target.id == base.id:
        return source
    changes: dict[ObjectPath, TreeEntry | None] = {}
    for path in base.entries.keys() | source.entries.keys():
        before, ours, theirs = base.entries.get(path), source.entries.get(path), target.entries.get(path)
        if ours in (before, theirs):
            continue
        if theirs != before:
            raise LakeConflict(f"merge: conflict in {path!r}")
        changes[path] = ours
    return target.apply(changes)


def merge_with_defects(base: Tree, source: Tree, target: Tree) -> Tree:
    """As lakeFS 1.86 merges: it compares an added object with the next object of the base, whatever its path.

    Where both sides added an object differently, one side counts as unchanged if it equals that next object. Where one side added
    it and the other side has no object from there on, it counts as removed if it equals that next object.
    """
    if base.id in (source.id, target.id):
        return merge(base, source, target)
    entries = dict(target.entries)
    for path in base.entries.keys() | source.entries.keys() | target.entries.keys():
        entry = _merged_with_defects(path, base, source, target)
        if entry is None:
            entries.pop(path, None)
        else:
            entries[path] = entry
    changes = {path: entries.get(path) for path in entries.keys() | target.entries.keys()}
    return target.apply({path: entry for path, entry in changes.items() if entry != target.entries.get(path)})


def _merged_with_defects(path: ObjectPath, base: Tree, source: Tree, target: Tree) -> TreeEntry | None:
    before, ours, theirs = base.entries.get(path), source.entries.get(path), target.entries.get(path)
    if before is None and ours is not None and theirs is not None and ours != theirs:
        following = _following(base, path)
        if following in (ours, theirs):
            return theirs if following == ours else ours
    for added, other, others in ((ours, theirs, target), (theirs, ours, source)):
        is_added = before is None and added is not None and other is None
        if is_added and added == _following(base, path) and _following(others, path) is None:
            return None
    if ours in (before, theirs):
        return theirs
    if theirs != before:
        raise LakeConflict(f"merge: conflict in {path!r}")
    return ours


def _following(tree: Tree, path: ObjectPath) -> TreeEntry | None:
    """The object at the path or the next one behind it."""
    at = bisect_left(tree.paths, path)
    return tree.entries[tree.paths[at]] if at < len(tree.paths) else None


def _hash(path: ObjectPath, entry: TreeEntry) -> int:
    """The upload counts: in lakeFS equal ids mean equal content, but the same content uploaded twice has two ids."""
    identity = repr((path, entry.size, entry.checksum, entry.content_type, entry.metadata, entry.upload))
    return int.from_bytes(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest())


def _kind(old: TreeEntry | None, new: TreeEntry | None) -> ChangeType | None:
    if old == new:
        return None
    if old is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if new is None else ChangeType.CHANGED
