"""Polls whose reply was lost: Conductor may have handed out a task that nobody runs. It is looked for, and handed back.

Without this it would wait for its response timeout. The search is as good as the server's index; what it finds is asked for again
before anything is done to it.
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
from perago.supervisor import logs
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.poller import pause_after

DUE_AFTER = (2.0, 7.0, 22.0)
"""Seconds: first when a long poll that was cut has ended on the server too, then for an index that lags."""
LONGEST_OUTAGE = 600.0
"""What was lost before is left to its timeout."""
AT_MOST = 200
"""Kept in mind; an outage cuts one poll after the other, and most had nothing to lose."""


@dataclass(slots=True)
class Lost:
    """One poll, and how often it was looked for."""

    task_type: TaskType
    worker_id: WorkerId
    since: float
    looks: int = 0

    @property
    def due(self) -> float:
        return self.since + DUE_AFTER[self.looks]


@dataclass
class LostPolls:
    """One search at a time, for all of them."""

    desk: Desk
    log: logs.Logger
    stopping: asyncio.Event
    _lost: list[Lost] = field(default_factory=list[Lost])
    _search: asyncio.Task[None] | None = None

    def add(self, task_type: TaskType, worker_id: WorkerId) -> None:
        self._lost = [*self._lost[1 - AT_MOST :], Lost(task_type, worker_id, time.monotonic())]
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._until_settled())

    async def settle(self) -> None:
        """Until nothing is left to look for."""
        if self._search is not None:
            await self._search

    async def _until_settled(self) -> None:
        failures = 0
        while self._lost and not self.stopping.is_set():
            await self._rest(pause_after(failures) if failures else min(one.due for one in self._lost) - time.monotonic())
            due = [one for one in self._lost if one.due <= time.monotonic()]
            failures = 0 if await self._look(due) else failures + 1
            self._lost = [one for one in self._lost if time.monotonic() - one.since < LONGEST_OUTAGE]

    async def _look(self, due: Sequence[Lost]) -> bool:
        """False if Conductor does not answer."""
        try:
            for task_type in {one.task_type for one in due}:
                await self._look_for(task_type, [one for one in due if one.task_type == task_type])
        except ConductorError:
            return False
        return True

    async def _look_for(self, task_type: TaskType, due: Sequence[Lost]) -> None:
        found = await self.desk.call(self.desk.conductor.handed_out, task_type, {one.worker_id for one in due})
        for attempt in found:
            await self._hand_back(attempt)
        for one in due:
            one.looks += 1
        settled = {attempt.worker_id for attempt in found} | {one.worker_id for one in due if one.looks == len(DUE_AFTER)}
        self._lost = [one for one in self._lost if one.worker_id not in settled]

    async def _hand_back(self, attempt: Attempt) -> None:
        """The nonce says that it was given to that poll and to nobody else, and that poll is over."""
        with contextlib.suppress(ConductorNotFound):
            seen = await self.desk.call(self.desk.conductor.snapshot, attempt.workflow_id, attempt.task_id)
            if fence.is_current(attempt, seen) and seen.workflow_status in ACTIVE_WORKFLOW:
                await self.desk.call(self.desk.conductor.hand_back, attempt)
                self.log.warning(
                    "a task whose poll was cut off is handed back", task_type=attempt.task_type, task_id=attempt.task_id
                )

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
