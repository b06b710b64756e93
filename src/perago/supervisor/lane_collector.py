"""Deletes the branches of lanes when their workflow is over, however it ended.

The join of a run that succeeds deletes them itself. Every worker that runs a fork, or a step in a lane, remembers the workflow
and asks Conductor about it from time to time. What is left when a worker stops is found by `perago gc`.
"""

import asyncio
import time
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

PAUSES = Backoff(first=2.0, longest=30.0)
"""Between two questions about a workflow."""


@dataclass(frozen=True, slots=True)
class LaneOwner:
    """A workflow with lanes in a repository."""

    repository: Repository
    workflow_id: WorkflowId


@dataclass(slots=True)
class _Watch:
    due: float
    asked: int = 0


@dataclass
class LaneCollector:
    """`log` is called with a line and its fields."""

    calls: BlockingCalls
    lake: Lake
    log: Callable[..., object]
    pauses: Backoff = PAUSES
    clock: Callable[[], float] = time.monotonic
    _watched: dict[LaneOwner, _Watch] = field(default_factory=dict[LaneOwner, _Watch])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, polled: Polled) -> None:
        """Remember the workflow if this task makes lanes, joins them or works in one."""
        owner = owner_of(polled)
        if owner is not None and owner not in self._watched:
            self._watched[owner] = _Watch(self.clock() + self.pauses.pause(1), 1)
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._until_due()
            now = self.clock()
            for owner in [owner for owner, watch in self._watched.items() if watch.due <= now]:
                await self._ask(owner)

    async def _until_due(self) -> None:
        self._changed.clear()
        due = min((watch.due for watch in self._watched.values()), default=None)
        timeout = None if due is None else max(0.0, due - self.clock())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _ask(self, owner: LaneOwner) -> None:
        watch = self._watched[owner]
        watch.asked += 1
        watch.due = self.clock() + self.pauses.pause(watch.asked)
        try:
            if not await self._is_over(owner.workflow_id):
                return
            deleted = await self.calls.run(lane_branches.delete_lanes, self.lake, owner.repository, owner.workflow_id)
        except (ConductorError, LakeError):
            # Asked again later; logs and metrics have their own reports about servers that do not answer.
            return
        del self._watched[owner]
        if deleted:
            self.log("deleted the branches of lanes", workflow_id=owner.workflow_id, count=deleted)

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
