"""The operations that Perago needs of lakeFS. The client and the in-memory fake pass one conformance suite.

Every method raises leaves of `LakeError`, and `WorkspaceError` for a problem with a local file. Reads may be retried inside; a
write is sent at most once, and one that broke off after it was sent, or was answered by a 5xx, raises `LakeUnknown`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from perago.lake import object_part
from perago.model import BranchName, Commit, CommitId, ObjectInfo, ObjectPath, Repository

Ref = BranchName | CommitId

PAGE = 1000
"""lakeFS's largest page for listings and its largest batch for deletes."""


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """One page of a listing in byte order of paths; `after` continues it, None ends it."""

    objects: Sequence[ObjectInfo]
    after: ObjectPath | None


@dataclass(frozen=True, slots=True)
class BranchHead:
    name: BranchName
    commit: CommitId


class ChangeType(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    path: ObjectPath
    type: ChangeType


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """An object that two commits hold differently, or only one of them holds."""

    path: ObjectPath
    type: ChangeType
    size: int
    """In the commit on the right; of a removed object, in the one on the left."""
    checksum: str = ""
    """As the two below in the commit on the right, empty for a removed object."""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file to upload that is held in memory."""

    path: ObjectPath
    data: bytes
    content_type: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server's storage supports besides transfers through lakeFS itself."""

    presign_read: bool = False
    presign_write: bool = False
    multipart: bool = False
    parts: bool = True
    """Whether `read_part` is of use."""


class Lake(Protocol):
    """Operations on branches, commits and objects."""

    def capabilities(self) -> Capabilities: ...

    # commits and branches
    def commit(self, repository: Repository, ref: Ref) -> Commit:
        """The commit that `ref` (an id, a branch, a tag) resolves to."""
        ...

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        """The branch's newest commit with its parents, in one request."""
        ...

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        """Where the branch stands; `LakeNotFound` for anything that is not a branch, tags and commit ids included."""
        ...

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        """A hidden branch at `source`; `LakeConflict` if the name is taken."""
        ...

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        """`LakeNotFound` if it is gone already."""
        ...

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Iterable[BranchHead]:
        """All branches whose name begins with `prefix`, hidden ones too, in byte order; `page` per request, as far as asked."""
        ...

    def commit_branch(
        self, repository: Repository, branch: BranchName, message: str, metadata: Mapping[str, str], *, allow_empty: bool = False
    ) -> Commit:
        """Commit what was written to the branch; `LakeConflict` if that is nothing, unless `allow_empty`."""
        ...

    def merge(
        self,
        repository: Repository,
        source: Ref,
        target: BranchName,
        *,
        message: str,
        metadata: Mapping[str, str],
        timeout: float,
    ) -> CommitId:
        """Squash-merge `source` (a branch is resolved by name on the server) into `target`; the id of the merge commit."""
        ...

    def revert(self, repository: Repository, branch: BranchName, commit: Commit, message: str) -> Commit:
        """Commit to the branch the opposite of what `commit` changed compared with its first parent; the new commit.

        What the branch has changed since is kept: `LakeConflict` where that is an object of `commit`, unless it is as it was
        before `commit` again, and where nothing is left to revert.
        """
        ...

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, *, timeout: float) -> None:
        """Hard-reset `target` to where the branch `to`, resolved by name on the server, stands."""
        ...

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        """Make each merge into the branch and each relocation of it that is under way start over and resolve its source again.

        The branch stays where it is. `LakeConflict` if it has uncommitted changes; then nothing was interrupted.
        """
        ...

    def differences(
        self, repository: Repository, left: CommitId, right: CommitId, *, page: int = PAGE
    ) -> Iterable[ObjectDifference]:
        """What has to change in `left` to get `right`, in byte order of paths; `page` per request, as far as asked."""
        ...

    # objects
    def objects(
        self, repository: Repository, ref: Ref, prefix: str, after: ObjectPath | None = None, *, presign: bool = False
    ) -> ObjectPage:
        """One page (at most `PAGE`) of the objects under `prefix`, entries of other path types left out."""
        ...

    def read(self, repository: Repository, ref: Ref, info: ObjectInfo, into: Path) -> str:
        """The object's bytes into a new file, constant memory; hex MD5 of what was written.

        Size and, where lakeFS's checksum is an MD5, content are verified: `LakeCorrupt` otherwise, and no file is left. One
        request, through `info.presigned_url` where it is set, falling back to lakeFS itself where that is refused.
        """
        ...

    def read_part(
        self, repository: Repository, ref: Ref, info: ObjectInfo, start: int, length: int, write: object_part.Write
    ) -> bool:
        """Some of the object's bytes; False if the server cannot send parts.

        Only their number is verified: the caller compares the checksum of the whole object.
        """
        ...

    def read_small(self, repository: Repository, ref: Ref, infos: Sequence[ObjectInfo]) -> Iterator[tuple[str, bytes]]:
        """MD5 and bytes of objects that fit into memory, in this order, verified as by `read`; one request each.

        The requests may be under way together, so a few dozen at a time cost little more than one.
        """
        ...

    def write(
        self,
        repository: Repository,
        branch: BranchName,
        path: ObjectPath,
        source: Path,
        *,
        content_type: str,
        metadata: Mapping[str, str],
        md5: str | None = None,
    ) -> ObjectInfo:
        """Upload one file; what lakeFS answered about it, verified against the bytes that were sent (`LakeCorrupt`).

        With the file's `md5`, if the caller has computed it, the answer is verified against that one.
        """
        ...

    def write_small(self, repository: Repository, branch: BranchName, files: Sequence[SmallFile]) -> Iterator[ObjectInfo]:
        """Upload small files, as by `write` and in this order; one request each, and they may be under way together.

        An error is about the first file without an answer; those after it may or may not have been written.
        """
        ...

    def copy_object(self, repository: Repository, branch: BranchName, path: ObjectPath, source: CommitId) -> None:
        """Make the object on the branch the one that `source` holds at this path, its metadata and content type included."""
        ...

    def delete_objects(self, repository: Repository, branch: BranchName, paths: Sequence[ObjectPath]) -> None:
        """Delete at most `PAGE` objects in one request; missing ones are no error, any refused one is.

        lakeFS ignores a missing branch here; the commit that follows fails.
        """
        ...

    def uncommitted(self, repository: Repository, branch: BranchName) -> Iterable[ObjectChange]:
        """What was written to the branch since its last commit, page by page."""
        ...
