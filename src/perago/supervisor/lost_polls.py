"""Finds tasks of polls whose reply was lost and returns them to their queue.

Conductor may have handed out a task that no worker runs, which would otherwise wait for its response timeout. The search depends
on the server's index, so each task that it finds is read again before it is returned.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from perago.errors import ConductorError, ConductorNotFound
from perago.model import Attempt, TaskType, WorkerId
from perago.protocol import fence
from perago.protocol.statuses import ACTIVE_WORKFLOW
from perago.supervisor import recorder
from perago.supervisor.context import BlockingCalls
from perago.supervisor.poller import SERVER_BACKOFF

SEARCH_AFTER = (2.0, 7.0, 22.0)
"""Seconds until each search: the first after an interrupted long poll has ended on the server, then later for a slow index."""
LONGEST_OUTAGE = 600.0
"""A task that was lost longer ago is left to its response timeout."""
LARGEST_COUNT = 200
"""Lost polls that are remembered. An outage interrupts one poll after the other, and most of them had no task."""


@dataclass(slots=True)
class LostPoll:
    """A poll whose reply was lost, and how often its task was searched for."""

    task_type: TaskType
    worker_id: WorkerId
    since: float
    searches: int = 0

    @property
    def due(self) -> float:
        return self.since + SEARCH_AFTER[self.searches]


@dataclass
class LostPolls:
    """The lost polls of a worker. One search at a time handles all of them."""

    calls: BlockingCalls
    observe: recorder.Observe
    _lost: list[LostPoll] = field(default_factory=list[LostPoll])
    _added: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, task_type: TaskType, worker_id: WorkerId) -> None:
        self._lost = [*self._lost[1 - LARGEST_COUNT :], LostPoll(task_type, worker_id, time.monotonic())]
        self._added.set()

    async def run(self) -> None:
        """A background task of the worker, cancelled when the worker has stopped."""
        while True:
            await self._added.wait()
            await self.search()
            self._added.clear()

    async def search(self) -> None:
        """Search until no lost poll is left."""
        failures = 0
        while self._lost:
            pause = SERVER_BACKOFF.pause(failures) if failures else min(one.due for one in self._lost) - time.monotonic()
            await asyncio.sleep(max(0.0, pause))
            due = [one for one in self._lost if one.due <= time.monotonic()]
            failures = 0 if await self._search(due) else failures + 1
            self._lost = [one for one in self._lost if time.monotonic() - one.since < LONGEST_OUTAGE]

    async def _search(self, due: Sequence[LostPoll]) -> bool:
        """Returns False if Conductor does not respond."""
        try:
            for task_type in {one.task_type for one in due}:
                await self._search_type(task_type, [one for one in due if one.task_type == task_type])
        except ConductorError:
            return False
        return True

    async def _search_type(self, task_type: TaskType, due: Sequence[LostPoll]) -> None:
        found = await self.calls.run(self.calls.conductor.handed_out, task_type, {one.worker_id for one in due})
        for attempt in found:
            await self._hand_back(attempt)
        for one in due:
            one.searches += 1
        settled = {attempt.worker_id for attempt in found} | {one.worker_id for one in due if one.searches == len(SEARCH_AFTER)}
        self._lost = [one for one in self._lost if one.worker_id not in settled]

    async def _hand_back(self, attempt: Attempt) -> None:
        """Return a task to its queue. The nonce in its worker id shows that it was handed out to the lost poll only."""
        with contextlib.suppress(ConductorNotFound):
            seen = await self.calls.run(self.calls.conductor.snapshot, attempt.workflow_id, attempt.task_id)
            if fence.is_current(attempt, seen) and seen.workflow_status in ACTIVE_WORKFLOW:
                await self.calls.run(self.calls.conductor.hand_back, attempt)
                self.observe(recorder.LostTaskReturned(attempt))
