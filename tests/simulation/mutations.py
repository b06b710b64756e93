"""The protocol with one rule switched off, without a switch in the program: other ports for the workers of a simulation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation import ports
from tests.simulation.actors import Actor
from tests.simulation.explore import Worlds
from tests.simulation.world import Fence, Rules, Worker, World

from perago.errors import LakeNotFound
from perago.model import Attempt, BranchName, Commit, CommitId, ObjectPath, Repository, Snapshot
from perago.protocol import names
from perago.testing.lake import MemoryLake
from perago.testing.repositories import Branch


class Unrevoking(ports.NetLake):
    """Sees no staging branches, so it revokes none."""

    def branches(self, repository: Repository, prefix: str) -> Any:
        super().branches(repository, prefix)
        return []


class OnlyOwnTask(ports.NetLake):
    """Sees the staging branches of its own logical task and no others."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._own: list[str] = []

    def create_branch(self, repository: Repository, branch: BranchName, source: CommitId) -> None:
        self._own.append(_logical(branch))
        super().create_branch(repository, branch, source)

    def branches(self, repository: Repository, prefix: str) -> Any:
        return [branch for branch in super().branches(repository, prefix) if _logical(branch.name) in self._own]


class ByCommit(ports.NetLake):
    """Publishes the commit that it staged, whatever became of the branch."""

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

    def merge(self, repository: Repository, source: BranchName, target: BranchName, **kwargs: Any) -> CommitId:
        return super().merge(repository, self._pinned(repository, source), target, **kwargs)

    def relocate(self, repository: Repository, target: BranchName, to: BranchName, **kwargs: Any) -> None:
        super().relocate(repository, target, self._pinned(repository, to), **kwargs)

    def _pinned(self, repository: Repository, branch: BranchName) -> BranchName:
        """A name that nobody else knows stands for the commit id."""
        commit = self._staged[branch]
        pin = BranchName(f"pin-{commit}")
        store = self.lake._repositories[repository]
        store.branches.setdefault(pin, Branch(store.record(commit), hidden=True))
        return pin


class Handleless(ByCommit):
    """Moves the target back to the input's commit id; a change of its own is published by name."""

    def merge(self, repository: Repository, source: BranchName, target: BranchName, **kwargs: Any) -> CommitId:
        return ports.NetLake.merge(self, repository, source, target, **kwargs)

    def _pinned(self, repository: Repository, branch: BranchName) -> BranchName:
        made = self.lake._repositories[repository].commits[self._staged[branch]]
        is_own = f"-exec-{made.metadata.get('perago.execution')}_" in branch
        return branch if is_own else super()._pinned(repository, branch)


class Unverifying(ports.NetLake):
    """Takes every merge for the one it wanted."""

    def __init__(self, actor: Actor, lake: MemoryLake) -> None:
        super().__init__(actor, lake)
        self._staged: Commit | None = None
        self._merged: CommitId | None = None

    def commit_branch(self, repository: Repository, branch: BranchName, *args: Any) -> Commit:
        self._staged = super().commit_branch(repository, branch, *args)
        return self._staged

    def merge(self, repository: Repository, source: BranchName, target: BranchName, **kwargs: Any) -> CommitId:
        self._merged = super().merge(repository, source, target, **kwargs)
        return self._merged

    def commit(self, repository: Repository, ref: CommitId) -> Commit:
        found = super().commit(repository, ref)
        if ref != self._merged or self._staged is None:
            return found
        return replace(found, parents=self._staged.parents, meta_range_id=self._staged.meta_range_id)


# Not rules of the protocol: faults that show that each thing the oracle looks for is found.


class Garbling(ports.NetLake):
    """Stages other bytes than the body wrote."""

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        super().upload(repository, branch, path, data[1:])


class Spilling(ports.NetLake):
    """Writes beside its prefix."""

    def upload(self, repository: Repository, branch: BranchName, path: ObjectPath, data: bytes) -> None:
        super().upload(repository, branch, path, data)
        super().upload(repository, branch, ObjectPath("outside"), data)


class Littering(ports.NetLake):
    """Never deletes a staging branch."""

    def delete_branch(self, repository: Repository, branch: BranchName) -> None:
        """Says it did."""


class Denying(ports.NetLake):
    """Merges, and says that it was not allowed to."""

    def merge(self, repository: Repository, source: BranchName, target: BranchName, **kwargs: Any) -> CommitId:
        super().merge(repository, source, target, **kwargs)
        raise LakeNotFound(f"branch {source} does not exist")


class Forgetful(World):
    """A Conductor that hands the workflow's input to every step."""

    def later_input(self, earlier: list[str], first: Mapping[str, Any]) -> Callable[[Any], Any]:
        del earlier
        return lambda _outputs: first


class Uncollected(World):
    """A collection that finds nothing."""

    def collect(self) -> None:
        """Has nothing to do."""


@dataclass
class FencedOnly:
    """The attempt fence that answers from memory, but for the calls that `fresh` tells by number from 1 on."""

    worker: Worker
    conductor: ports.NetConductor
    fresh: Callable[[int], bool]
    calls: int = 0
    remembered: list[Snapshot] = field(default_factory=list[Snapshot])

    def snapshot(self, attempt: Attempt) -> Snapshot:
        self.calls += 1
        if self.fresh(self.calls):
            self.remembered.append(Fence(self.worker, self.conductor).snapshot(attempt))
        return self.remembered[-1]

    def lease_seconds_left(self) -> float:
        return 60.0


def _fence(fresh: Callable[[int], bool]) -> Callable[[Worker, ports.NetConductor], FencedOnly]:
    return lambda worker, conductor: FencedOnly(worker, conductor, fresh)


def _logical(branch: BranchName) -> str:
    name = names.parse(branch)
    return "" if name is None else name.logical_prefix


def _with(rules: Rules) -> Worlds:
    return lambda steps: World(steps, rules)


RULES: dict[str, Worlds] = {
    "revoke": _with(Rules(lake=Unrevoking)),
    "by name": _with(Rules(lake=ByCommit)),
    "handle": _with(Rules(lake=Handleless)),
    "verify": _with(Rules(lake=Unverifying)),
    "second attempt fence": _with(Rules(fence=_fence(lambda call: call != 2))),
    "third attempt fence": _with(Rules(fence=_fence(lambda call: call != 3))),
    "revoke on the whole target": _with(Rules(lake=OnlyOwnTask)),
}
FAULTS: dict[str, Worlds] = {
    "an accepted publication has exactly its content": _with(Rules(lake=Garbling)),
    "nothing outside the prefix changed": _with(Rules(lake=Spilling)),
    "a finished execution leaves no staging branch": _with(Rules(lake=Littering)),
    "a refused attempt changed nothing visible": _with(Rules(lake=Denying)),
    "the next step builds on what was accepted": Forgetful,
    "no staging branch of a finished attempt survives a collection": Uncollected,
}
"""By the rule that each breaks."""
