"""Who wrote an object as it is in a commit: the publication that put it there, through merges and undone publications."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from perago.lake.port import Lake
from perago.model import Commit, CommitId, ObjectInfo, ObjectPath, Repository
from perago.operate import evidence, objects
from perago.operate.evidence import Evidence
from perago.operate.servers import Servers
from perago.protocol import commit_labels

_CANDIDATES = 20
"""So many commits that changed an object are compared with it."""
_UNDONE = 20
"""So many undone publications of one object are followed."""


@dataclass(frozen=True, slots=True)
class Authorship:
    """`written` is None where none of the newest commits that changed the object holds it like that."""

    object: ObjectInfo
    written: Evidence | None
    restored: Sequence[Evidence] = ()
    """The commits of `perago undo` that put it back, the newest first."""


def select(lake: Lake, repository: Repository, commit: CommitId, path: str, limit: int) -> tuple[Sequence[ObjectInfo], bool]:
    """The object of that name, or else the first objects below it; and whether there are more."""
    if (found := objects.find(lake, repository, commit, ObjectPath(path))) is not None:
        return [found], False
    listed = objects.below(lake, repository, commit, path if path.endswith("/") else f"{path}/")
    infos = list(itertools.islice(listed, limit + 1))
    return infos[:limit], len(infos) > limit


def of(servers: Servers, repository: Repository, commit: CommitId, info: ObjectInfo) -> Authorship:
    """Follows a publication that only put the object back to what it was before the undone one."""
    restored: list[Evidence] = []
    for _ in range(_UNDONE):
        made = _writer(servers, repository, commit, info)
        before = None if made is None else _before_undone(servers, repository, made)
        if made is None or before is None:
            return Authorship(info, None if made is None else evidence.of(servers, made), restored)
        restored.append(evidence.of(servers, made))
        commit = before
    return Authorship(info, None, restored)


def _writer(servers: Servers, repository: Repository, commit: CommitId, info: ObjectInfo) -> Commit | None:
    """The newest commit that changed the object to what it is; of the sides of a merge, the one whose object was taken."""
    for made in servers.settings.writers(repository, commit, info.path, _CANDIDATES):
        there = objects.find(servers.lake, repository, made.id, info.path)
        if there is not None and _is_same(there, info):
            return made
    return None


def _is_same(one: ObjectInfo, other: ObjectInfo) -> bool:
    return (one.checksum, one.size, one.mtime) == (other.checksum, other.size, other.mtime)


def _before_undone(servers: Servers, repository: Repository, made: Commit) -> CommitId | None:
    undone = made.metadata.get(commit_labels.UNDO)
    return servers.lake.commit(repository, CommitId(undone)).first_parent if undone else None
