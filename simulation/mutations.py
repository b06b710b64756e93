"""The protocol with one rule switched off: ports for simulated workers that break the rule.

The program itself has no such switch.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from perago.errors import LakeNotFound, LakeUnknown
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.lake import MemoryLake
from perago.in_memory.repository import Branch
from perago.lake.port import PAGE, Ref
from perago.model import Attempt, BranchName, Commit, CommitId, ObjectPath, Outcome, Repository, Snapshot, TaskId, WorkflowId
from perago.protocol import head, staging_names
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK, TaskState
from simulation import explore, ports
from simulation.actors import Actor
from simulation.explore import Family, WorldFactory
from simulation.setup import Setting
from simulation.world import Fence, Rules, Worker, World

# Requests to Conductor


class TreatsAllAsAbandoned(Fence):
    """Treats the task of every head as failed."""

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        seen = super().look_up(task_id, workflow_id)
        return replace(seen, status=TaskState.FAILED) if workflow_id is None else seen


class TreatsDisplacingAsAbandoned(Fence):
    """Treats the task of a head as failed if Conductor accepted another commit from it."""

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        seen = super().look_up(task_id, workflow_id)
        is_other = seen.status == TaskState.COMPLETED and head.accepted_ref(seen) != self.conductor.actor.last_head
        return replace(seen, status=TaskState.FAILED) if workflow_id is None and is_other else seen


class TreatsEndedAsAbandoned(Fence):
    """Treats an unfinished task as failed if its workflow has ended, even if it ended a moment ago."""

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        seen = super().look_up(task_id, workflow_id)
        is_over = workflow_id is not None and seen.workflow_status not in ACTIVE_WORKFLOW
        return replace(seen, status=TaskState.FAILED) if is_over and seen.status in UNFINISHED_TASK else seen


class NeverGivesWay(Fence):
    """Treats every rival as one that started later."""

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return replace(super().look_up(task_id, workflow_id), workflow_created=2**62)


class AlwaysGivesWay(Fence):
    """Treats every rival as one that started first."""

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return replace(super().look_up(task_id, workflow_id), workflow_created=0)


@dataclass
class RemembersAttempt(Fence):
    """Repeats the last answer of the attempt fence, unless `is_fresh` is true for the last verb called before the fence."""

    is_fresh: Callable[[str], bool] = field(kw_only=True)
    remembered: Snapshot | None = None

    def snapshot(self, attempt: Attempt) -> Snapshot:
        if self.remembered is None or self.is_fresh(self.conductor.actor.verb):
            self.remembered = super().snapshot(attempt)
        return self.remembered


class RemembersCompleted(ports.NetConductor):
    """Does not ask again about a task that it has seen completed."""

    def __init__(self, actor: Actor, conductor: FakeConductor, take: Callable[[Outcome], None]) -> None:
        super().__init__(actor, conductor, take)
        self._completed: dict[TaskId, Snapshot] = {}

    def task(self, task_id: TaskId) -> Snapshot:
        seen = self._completed.get(task_id) or super().task(task_id)
        if seen.status == TaskState.COMPLETED:
            self._completed[task_id] = seen
        return seen


# Requests to the lake


class TracksOwnBranches(ports.NetLake):
    """Keeps a list of the staging branches that it created and has not deleted."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._own: list[BranchName] = []

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._own.append(branch)
        super().create_branch(repository, branch, source)

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        super().delete_branch(repository, branch)
        if branch in self._own:
            self._own.remove(branch)


class NeverRevokes(TracksOwnBranches):
    """Does not delete the staging branches of rivals."""

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        if branch in self._own:
            super().delete_branch(repository, branch)


class AnnouncesLate(ports.NetLake):
    """Uses a private branch name until its first listing of rivals, and renames the branch to its staging name only then."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._private: dict[str, BranchName] = {}

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return super().ask(verb, *(self._reached(arg) for arg in args), **kwargs)

    def _reached(self, named: Any) -> Any:
        return self._private.get(named, named) if isinstance(named, str) else named

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        super().upload(repository, self._reached(branch), path, data)

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._private[branch] = BranchName(f"private-{branch}")
        super().create_branch(repository, branch, source)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Any:
        found = super().branches(repository, prefix, page=page)
        while self._private:
            public, private = self._private.popitem()
            self.actor.call("create_branch", partial(self._rename, repository, private, BranchName(public)))
        return found

    def _rename(self, repository: Repository, private: BranchName, public: BranchName) -> None:
        branches = self.lake._repositories[repository].branches
        branches[public] = branches.pop(private)


class ListsOnce(TracksOwnBranches):
    """Finds no rivals if it created its staging branch after a first listing: it does not list again."""

    _has_listed = _is_late = False

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._is_late = self._has_listed and not self._own
        super().create_branch(repository, branch, source)

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Any:
        self._has_listed = True
        return [] if self._is_late else super().branches(repository, prefix, page=page)


class UndoesWithoutClaim(TracksOwnBranches):
    """Finds no rivals while it has a second staging branch, the one for the undo."""

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Any:
        return [] if len(self._own) > 1 else super().branches(repository, prefix, page=page)


class RestoresWithoutClaim(TracksOwnBranches):
    """Finds no rivals while it has a staging branch for the restoration of a commit."""

    def branches(self, repository: Repository, prefix: str, *, page: int = PAGE) -> Any:
        restores = len(self._own) == 1 and self._own[0].endswith(staging_names.RESTORE)
        return [] if restores else super().branches(repository, prefix, page=page)


class NeverInterrupts(ports.NetLake):
    """Has no barrier: updates that are in progress continue."""

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        """Reports success without a request."""


class RestoresWithoutBarrier(TracksOwnBranches):
    """Has no barrier while it has no staging branch, that is, before it decides whether to restore a commit."""

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        if self._own:
            super().interrupt_updates(repository, branch)


class DeletesBranchOnLostReply(ports.NetLake):
    """Deletes its staging branch as soon as the reply to the publish request is lost, before it has read the head."""

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        try:
            return super().merge(repository, source, target, **kwargs)
        except LakeUnknown:
            self._delete_own(repository, BranchName(source))
            raise

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, **kwargs: Any) -> None:
        try:
            super().relocate(repository, target, to, **kwargs)
        except LakeUnknown:
            self._delete_own(repository, to)
            raise

    def _delete_own(self, repository: Repository, branch: BranchName) -> None:
        with contextlib.suppress(LakeNotFound):
            self.delete_branch(repository, branch)


class DeletesBranchWithoutBarrier(DeletesBranchOnLostReply):
    """Also has a barrier only after a revocation: a barrier before every relocation would hide the missing rule."""

    _has_revoked = False

    def interrupt_updates(self, repository: Repository, branch: BranchName) -> None:
        if self._has_revoked:
            super().interrupt_updates(repository, branch)

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        self._has_revoked = True
        super().delete_branch(repository, branch)


class ClaimsAnyMerge(ports.NetLake):
    """Treats any head as its own merge after the reply to its merge was lost."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._lost: Any = None

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        try:
            return super().merge(repository, source, target, **kwargs)
        except LakeUnknown:
            self._lost = kwargs["metadata"]
            raise

    def head(self, repository: Repository, branch: BranchName) -> Commit:
        found = super().head(repository, branch)
        return found if self._lost is None else replace(found, metadata=self._lost)


class PublishesByCommitId(ports.NetLake):
    """Publishes the commit that it staged, even if the staging branch was deleted."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._staged: dict[BranchName, CommitId] = {}

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._staged[branch] = source
        super().create_branch(repository, branch, source)

    def commit_branch(self, repository: Repository, branch: BranchName, *args: Any) -> Commit:
        made = super().commit_branch(repository, branch, *args)
        self._staged[branch] = made.id
        return made

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        return super().merge(repository, self._pinned(repository, BranchName(source)), target, **kwargs)

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, **kwargs: Any) -> None:
        super().relocate(repository, target, self._pinned(repository, to), **kwargs)

    def _pinned(self, repository: Repository, branch: BranchName) -> BranchName:
        """A branch at the staged commit, with a name that no other attempt knows: publishing it is publishing by commit id."""
        commit = self._staged[branch]
        pin = BranchName(f"pin-{commit}")
        store = self.lake._repositories[repository]
        store.branches.setdefault(pin, Branch(store.record(commit), hidden=True))
        return pin


class MovesBackByCommitId(PublishesByCommitId):
    """Moves the target back by the id of the input commit, without a handle; publishes its own changes by branch name."""

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        return ports.NetLake.merge(self, repository, source, target, **kwargs)

    def _pinned(self, repository: Repository, branch: BranchName) -> BranchName:
        made = self.lake._repositories[repository].commits[self._staged[branch]]
        name = staging_names.parse(branch)
        is_own = name is not None and made.metadata.get("perago.execution") == name.execution_id
        return branch if is_own else super()._pinned(repository, branch)


class SkipsVerification(ports.NetLake):
    """Treats every merge as verified."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._staged: Commit | None = None
        self._merged: CommitId | None = None

    def commit_branch(self, repository: Repository, branch: BranchName, *args: Any) -> Commit:
        self._staged = super().commit_branch(repository, branch, *args)
        return self._staged

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        self._merged = super().merge(repository, source, target, **kwargs)
        return self._merged

    def commit(self, repository: Repository, ref: CommitId) -> Commit:
        found = super().commit(repository, ref)
        if ref != self._merged or self._staged is None:
            return found
        return replace(found, parents=self._staged.parents, meta_range_id=self._staged.meta_range_id)


class MendsAnything(ports.NetLake):
    """Treats the unexpected commit below its merge as one of an earlier execution of its task, and mends it."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._labels: Any = None

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        merged = super().merge(repository, source, target, **kwargs)
        self._labels = kwargs["metadata"]
        return merged

    def commit(self, repository: Repository, ref: CommitId) -> Commit:
        found = super().commit(repository, ref)
        return found if self._labels is None else replace(found, metadata=self._labels)


# Faults that are no rules of the protocol: each violates one invariant, to show that the oracle detects it.


class StagesOtherBytes(ports.NetLake):
    """Stages bytes that differ from those that the body wrote."""

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        super().upload(repository, branch, path, data[1:])


class WritesOutsidePrefix(ports.NetLake):
    """Writes an object outside the prefix."""

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        super().upload(repository, branch, path, data)
        super().upload(repository, branch, ObjectPath("outside"), data)


class LeavesStagingBranches(ports.NetLake):
    """Never deletes a staging branch."""

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        """Reports success without a request."""


class DeniesMerge(ports.NetLake):
    """Merges, and then reports that the source branch does not exist."""

    def merge(self, repository: Repository, source: Ref, target: BranchName, **kwargs: Any) -> CommitId:
        super().merge(repository, source, target, **kwargs)
        raise LakeNotFound(f"branch {source} does not exist")


class CollectsNothing(World):
    """A garbage collection that finds nothing."""

    def collect(self) -> None:
        """Deletes nothing."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule that is switched off, and the families of schedules in which a violation is likely."""

    rules: Rules
    families: tuple[Family, ...]

    def world(self, setting: Setting) -> World:
        return World(setting, self.rules)


def _remembers(is_fresh: Callable[[str], bool]) -> Callable[[Worker, ports.NetConductor], Fence]:
    return lambda worker, conductor: RemembersAttempt(worker, conductor, is_fresh=is_fresh)


_ABOUT_TO_LIST, _LATE_HANDLE, _HELD, _IN_DOUBT, _LOST_ANSWER = explore.GUIDED
_UNDONE = explore.HANDS[-1]
_LISTING, _LOOKING = frozenset({"branches", "peek"}), frozenset({"head", "task"})
"""The verbs directly before the attempt fence of a claim, and directly before that of a replacement."""

RULES = {
    "verify-abandonment": Mutation(Rules(fence=TreatsAllAsAbandoned), explore.STALE),
    "displaced": Mutation(Rules(fence=TreatsDisplacingAsAbandoned), explore.LATE_OF_TWO[-1:]),
    "ended-long-before": Mutation(Rules(fence=TreatsEndedAsAbandoned), explore.BETWEEN_READS),
    "announce-first": Mutation(Rules(lake=AnnouncesLate), (_ABOUT_TO_LIST,)),
    "list-again": Mutation(Rules(lake=ListsOnce), (_LATE_HANDLE,)),
    "order": Mutation(Rules(fence=NeverGivesWay), explore.CALM_RIVALS),
    "one-order": Mutation(Rules(fence=AlwaysGivesWay), explore.CALM_RIVALS),
    "revoke": Mutation(Rules(lake=NeverRevokes), explore.OVERTAKING),
    "barrier": Mutation(Rules(lake=NeverInterrupts), (_HELD,)),
    "attempt-fence": Mutation(Rules(fence=_remembers(lambda last: last not in _LISTING)), explore.OVERTAKING[:1]),
    "by-name": Mutation(Rules(lake=PublishesByCommitId), explore.OVERTAKING),
    "handle": Mutation(Rules(lake=MovesBackByCommitId), explore.OVERTAKING),
    "verify": Mutation(Rules(lake=SkipsVerification), explore.HANDS),
    "verify-mend": Mutation(Rules(lake=MendsAnything), explore.HANDS),
    "undo-claim": Mutation(Rules(lake=UndoesWithoutClaim), (_UNDONE,)),
    "own-merge": Mutation(Rules(lake=ClaimsAnyMerge), (_LOST_ANSWER,)),
    "announced-rescue": Mutation(Rules(lake=DeletesBranchWithoutBarrier), (_IN_DOUBT,)),
    "restore": Mutation(Rules(restores=False), explore.LATE_ONE),
    "restore-interrupt": Mutation(Rules(lake=RestoresWithoutBarrier), explore.LATE_ONE[-1:]),
    "restore-claim": Mutation(Rules(lake=RestoresWithoutClaim), explore.LATE[-1:]),
    "restore-outdated": Mutation(Rules(conductor=RemembersCompleted), explore.RESTORING),
}
REDUNDANT = {
    "early-check": Mutation(Rules(checks_early=False), (*explore.STALE, *explore.RIVALS)),
    "announced-rescue-alone": Mutation(Rules(lake=DeletesBranchOnLostReply), (_IN_DOUBT, _LOST_ANSWER, _HELD)),
    "fence-before-replacement": Mutation(Rules(fence=_remembers(lambda last: last not in _LOOKING)), explore.OVERTAKING[1:2]),
}
"""Rules of which any single one can be switched off without a loss: they refuse earlier, or another rule has the same effect.

`announced-rescue` alone is redundant because of the barrier before every relocation. In `RULES` it is therefore combined with a
barrier that only follows a revocation.
"""
FAULTS: dict[str, WorldFactory] = {
    "an accepted publication has exactly its content": Mutation(Rules(lake=StagesOtherBytes), ()).world,
    "nothing outside the prefix changed": Mutation(Rules(lake=WritesOutsidePrefix), ()).world,
    "a finished execution leaves no staging branch": Mutation(Rules(lake=LeavesStagingBranches), ()).world,
    "a refused attempt changed nothing visible": Mutation(Rules(lake=DeniesMerge), ()).world,
    "no staging branch of a finished attempt survives a collection": CollectsNothing,
}
"""Faults by the rule that each of them breaks."""
