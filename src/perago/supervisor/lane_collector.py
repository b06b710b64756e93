"""Deletes the branches of lanes when their workflow is over, however it ended.

The join of a run that succeeds deletes them itself. Every worker that runs a fork, or a step in a lane, remembers the workflow
and asks Conductor about it from time to time. What is left when a worker stops is found by `perago gc`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from perago.builtin import lane_branches, names
from perago.conductor.port import Polled
from perago.errors import ConductorError, ConductorNotFound, LakeError
from perago.lake.port import Lake
from perago.model import BranchName, Repository, WorkflowId
from perago.process.backoff import Backoff
from perago.protocol import lane_names
from perago.protocol.statuses import ENDED_WORKFLOW
from perago.supervisor.context import BlockingCalls
from perago.supervisor.watchlist import Watchlist

PAUSES = Backoff(first=2.0, longest=30.0)
"""Between two questions about a workflow."""


@dataclass(frozen=True, slots=True)
class LaneOwner:
    """A workflow with lanes in a repository."""

    repository: Repository
    workflow_id: WorkflowId


@dataclass
class LaneCollector:
    """`log` is called with a line and its fields."""

    calls: BlockingCalls
    lake: Lake
    log: Callable[..., object]
    pauses: Backoff = PAUSES
    _asked: Counter[LaneOwner] = field(default_factory=Counter[LaneOwner])
    _watched: Watchlist[LaneOwner] = field(init=False)

    def __post_init__(self) -> None:
        self._watched = Watchlist(self._ask)

    def watch(self, polled: Polled) -> None:
        """Remember the workflow if this task makes lanes, joins them or works in one."""
        owner = owner_of(polled)
        if owner is not None and owner not in self._watched:
            self._asked[owner] = 1
            self._watched.add(owner, self.pauses.pause(1))

    async def run(self) -> None:
        await self._watched.run()

    async def _ask(self, owner: LaneOwner) -> float | None:
        self._asked[owner] += 1
        later = self.pauses.pause(self._asked[owner])
        try:
            if not await self._is_over(owner.workflow_id):
                return later
            deleted = await self.calls.run(lane_branches.delete_lanes, self.lake, owner.repository, owner.workflow_id)
        except (ConductorError, LakeError):
            # Asked again later; logs and metrics have their own reports about servers that do not answer.
            return later
        del self._asked[owner]
        if deleted:
            self.log("deleted the branches of lanes", workflow_id=owner.workflow_id, count=deleted)
        return None

    async def _is_over(self, workflow_id: WorkflowId) -> bool:
        try:
            return await self.calls.run(self.calls.conductor.workflow_status, workflow_id) in ENDED_WORKFLOW
        except ConductorNotFound:
            return True


def owner_of(polled: Polled) -> LaneOwner | None:
    """The workflow whose lanes the task concerns, None if there are none."""
    match polled.input.get("workspace"):
        case {"repository": str(repository), "branch": str(branch)}:
            return _owner(polled, Repository(repository), BranchName(branch))
        case _:
            return None


def _owner(polled: Polled, repository: Repository, branch: BranchName) -> LaneOwner | None:
    if polled.attempt.task_type in (names.FORK, names.JOIN):
        return LaneOwner(repository, polled.attempt.workflow_id)
    lane = lane_names.parse(branch)
    return None if lane is None or lane.workflow_id is None else LaneOwner(repository, lane.workflow_id)
