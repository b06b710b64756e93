"""Makes one commit of what several lanes changed, on scratch branches, and proves that it holds exactly that.

lakeFS merges lanes on the server, but its merge loses objects in rare cases, so its result is never trusted: the difference
between the fork's commit and the result is compared with the union of what the lanes changed, and objects that contradict it are
copied or deleted one by one. What is still different then fails the attempt.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from perago.attempt import cancellation, instrumentation
from perago.builtin import lane_changes, parallel
from perago.builtin.lane_changes import Change, Conflicts, LaneChanges
from perago.errors import LakeConflict, LaneConflictError, WorkspaceError
from perago.events import Effect
from perago.lake import port as lake_port
from perago.lake.port import PAGE, ChangeType, ObjectDifference
from perago.model import BranchName, ChangeCounts, Commit, CommitId, ObjectPath, Repository

MERGE_SECONDS = 600.0
FEW = 16
FEW_BYTES = 16 << 20
"""Up to so many objects and bytes of a lane are copied rather than merged: a merge reads whole ranges of the repository."""
READERS = 4
_MESSAGE = "join lanes"


@dataclass(frozen=True, slots=True)
class Composed:
    """A commit with what the lanes changed, and how much that is."""

    commit: Commit
    counts: ChangeCounts


@dataclass(frozen=True, slots=True)
class Composition:
    """`lanes` have changed something. `scratch` creates a scratch branch at a commit."""

    lake: lake_port.Lake
    recorder: instrumentation.EffectRecorder
    repository: Repository
    base: CommitId
    lanes: Sequence[tuple[str, CommitId]]
    scratch: Callable[[CommitId], BranchName]

    def compose(self) -> Composed:
        """A commit that holds the fork's commit with what all lanes changed; `LaneConflictError` where they disagree."""
        page = lane_changes.page_size(len(self.lanes))
        with self.recorder.record(Effect.DIFF):
            lanes = parallel.each(lambda lane: lane_changes.first_changes(*lane, self._read, page), self.lanes)
            counts = self._require_no_conflict(lanes)
        if len(lanes) == 1:
            return Composed(self.lake.commit(self.repository, lanes[0].commit), counts)
        return Composed(self._composed(lanes), counts)

    def _composed(self, lanes: Sequence[LaneChanges]) -> Commit:
        copied, merged = _divide(lanes)
        with self.recorder.record(Effect.MERGE_LANES):
            branch = self._merge([lane.commit for lane in merged])
        made = self._copied(branch, [Change(one, lane) for lane in copied for one in lane.kept])
        if self._contradicts(lanes, made):
            made = self._repaired(branch, lanes, made)
            if self._contradicts(lanes, made):
                raise WorkspaceError(
                    "the join of the lanes does not hold what they changed; lakeFS gave other answers than before"
                )
        return made

    def _read(self, commit: CommitId, page: int) -> Iterable[ObjectDifference]:
        return self.lake.differences(self.repository, self.base, commit, page=page)

    # conflicts

    def _require_no_conflict(self, lanes: Sequence[LaneChanges]) -> ChangeCounts:
        """How much the lanes changed together."""
        found, types, size = Conflicts(), Counter[ChangeType](), 0
        with ThreadPoolExecutor(READERS) as pool:
            for change in lane_changes.union(lanes, self._read, pool, found):
                types[change.wanted.type] += 1
                size += change.wanted.size if change.wanted.type is not ChangeType.REMOVED else 0
        if found.count:
            raise LaneConflictError(f"{found}; let one of them write it, or put one step behind the other")
        return ChangeCounts(types[ChangeType.ADDED], types[ChangeType.CHANGED], types[ChangeType.REMOVED], size)

    # merge on the server

    def _merge(self, commits: Sequence[CommitId]) -> BranchName:
        """A scratch branch with the changes of these commits, or of most: one that lakeFS does not merge is left out.

        One after the other: merging in groups was measured, and saves no time of the server.
        """
        branch = self.scratch(commits[0])
        for commit in commits[1:]:
            cancellation.require_wanted()
            try:
                self.lake.merge(self.repository, commit, branch, message=_MESSAGE, metadata={}, timeout=MERGE_SECONDS)
            except LakeConflict:
                # Not a conflict of ours: there is none. The comparison finds what is missing.
                continue
        return branch

    # object by object

    def _copied(self, branch: BranchName, changes: Sequence[Change]) -> Commit:
        """The branch's commit after these changes."""
        if changes:
            with self.recorder.record(Effect.COPY_FROM_LANES):
                self._apply(branch, changes)
                self._commit(branch)
        return self.lake.head(self.repository, branch)

    def _repaired(self, branch: BranchName, lanes: Sequence[LaneChanges], made: Commit) -> Commit:
        with self.recorder.record(Effect.COPY_FROM_LANES), ThreadPoolExecutor(READERS) as pool:
            wrong = self._contradictions(lanes, made, pool)
            while part := list(itertools.islice(wrong, PAGE)):
                self._apply(branch, part)
            self._commit(branch)
        return self.lake.head(self.repository, branch)

    def _apply(self, branch: BranchName, changes: Sequence[Change | ObjectDifference]) -> None:
        """Make the changes on the branch, and undo the differences. Both are copies of objects, or deletions."""
        cancellation.require_wanted()
        sources = [(path, source) for path, source in map(self._source, changes) if source is not None]
        gone = [path for path, source in map(self._source, changes) if source is None]
        for at in range(0, len(gone), PAGE):
            self.lake.delete_objects(self.repository, branch, gone[at : at + PAGE])
        parallel.each(lambda one: self.lake.copy_object(self.repository, branch, *one), sources)

    def _source(self, one: Change | ObjectDifference) -> tuple[ObjectPath, CommitId | None]:
        """The object, and the commit that holds it as it should be; None where it should not exist."""
        if isinstance(one, Change):
            return one.wanted.path, None if one.wanted.type is ChangeType.REMOVED else one.lane.commit
        return one.path, None if one.type is ChangeType.ADDED else self.base

    def _commit(self, branch: BranchName) -> None:
        try:
            self.lake.commit_branch(self.repository, branch, _MESSAGE, {})
        except LakeConflict:
            if any(self.lake.uncommitted(self.repository, branch)):
                raise

    # proof

    def _contradicts(self, lanes: Sequence[LaneChanges], made: Commit) -> bool:
        with self.recorder.record(Effect.COMPARE_LANES), ThreadPoolExecutor(READERS) as pool:
            return next(self._contradictions(lanes, made, pool), None) is not None

    def _contradictions(
        self, lanes: Sequence[LaneChanges], made: Commit, pool: ThreadPoolExecutor
    ) -> Iterator[Change | ObjectDifference]:
        found = lane_changes.read_ahead(self._read(made.id, PAGE), pool, PAGE)
        return lane_changes.contradictions(lane_changes.union(lanes, self._read, pool), found)


def _divide(lanes: Sequence[LaneChanges]) -> tuple[list[LaneChanges], list[LaneChanges]]:
    """Lanes whose objects are copied, and those that are merged: at least the one that changed most."""
    ordered = sorted(lanes, key=lambda lane: (lane.is_complete, -len(lane.kept), -lane.size))
    first, *others = ordered
    copied = [lane for lane in others if lane.is_complete and len(lane.kept) <= FEW and lane.size <= FEW_BYTES]
    return copied, [first, *(lane for lane in others if lane not in copied)]
