"""Polls whose reply was lost: Conductor may have handed out a task that nobody runs. It is looked for, and handed back.

Without this it would wait for its response timeout. The search is as good as the server's index; what it finds is asked for again
before anything is done to it.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from perago.conductor import completion
from perago.errors import ConductorError, ConductorNotFound
from perago.model import Attempt, TaskType, WorkerId
from perago.worker import logs
from perago.worker.desk import Desk

PAUSES = (2.0, 5.0, 15.0)
"""Before each look that Conductor answers: first when a long poll that was cut has ended on the server too, then for an index
that lags."""
AGAIN_SECONDS = 2.0
"""Before the next try while Conductor does not answer."""
LONGEST_OUTAGE = 600.0


@dataclass
class LostPolls:
    desk: Desk
    log: logs.Logger
    stopping: asyncio.Event
    _searches: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def add(self, task_type: TaskType, worker_id: WorkerId) -> None:
        search = asyncio.create_task(self._search(task_type, worker_id))
        self._searches.add(search)
        search.add_done_callback(self._searches.discard)

    async def settle(self) -> None:
        """Until every search has ended."""
        await asyncio.gather(*self._searches)

    async def _search(self, task_type: TaskType, worker_id: WorkerId) -> None:
        give_up_at = asyncio.get_running_loop().time() + LONGEST_OUTAGE
        for pause in PAUSES:
            await self._rest(pause)
            found = await self._look(task_type, worker_id)
            while found is None and not self.stopping.is_set() and asyncio.get_running_loop().time() < give_up_at:
                await self._rest(AGAIN_SECONDS)
                found = await self._look(task_type, worker_id)
            if found or self.stopping.is_set():
                return

    async def _look(self, task_type: TaskType, worker_id: WorkerId) -> bool | None:
        """Whether there was one, and it is back in its queue; None if Conductor did not answer."""
        try:
            found = await self.desk.call(self.desk.conductor.handed_out, task_type, {worker_id})
            for attempt in found:
                await self._hand_back(attempt)
        except ConductorError:
            return None
        return bool(found)

    async def _hand_back(self, attempt: Attempt) -> None:
        """The nonce says that it was given to that poll and to nobody else, and that poll is over."""
        with contextlib.suppress(ConductorNotFound):
            seen = await self.desk.call(self.desk.conductor.snapshot, attempt.workflow_id, attempt.task_id)
            if completion.is_current(attempt, seen) and seen.workflow_status == "RUNNING":
                await self.desk.call(self.desk.conductor.hand_back, attempt)
                self.log.warning(
                    "a task whose poll was cut off is handed back", task_type=attempt.task_type, task_id=attempt.task_id
                )

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
