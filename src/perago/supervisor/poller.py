"""Which idle slot asks Conductor for which task type, and when.

A poll asks for one task, so that a ready one is never held back for company. Where every type can have a slot waiting, polls are
long. Where slots are fewer than types, they go round: short polls while all queues are empty, polls that do not wait at all while
one has work, and the empty ones then only now and then. While nothing is found one slot per type asks; each find lets one more
ask beside it. Nobody asks without a free executor, so nothing is taken that cannot begin at once.

While a queue gives without waiting, its next task is asked for with the report of the one before (`along`): one request less.
"""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from perago.conductor.port import Polled
from perago.errors import ConductorError, ConductorUnknown
from perago.model import TaskType, WorkerId
from perago.supervisor.blocking_calls import Desk

LONG_SECONDS = 1.0
"""Of a long poll; also how long an idle worker may need to stop."""
STOP_SLACK = 0.5
SHORT_SECONDS = 0.1
COLD_SECONDS = 0.25
"""How long a queue that was found empty is left alone while others have work."""
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
AT_ONCE_SECONDS = 0.1
"""A task that comes sooner lay ready, and others probably do."""


@dataclass(slots=True)
class Queue:
    """One task type: how many ask for it, how many may, and since when nobody did."""

    task_type: TaskType
    asking: int = 0
    allowed: int = 1
    asked_at: float = 0.0
    was_empty: bool = True
    has_more: bool = False
    """One of its tasks came at once, and every poll since then has found another."""
    is_held: bool = False
    """Not asked at all while what its tasks need is not there."""

    def is_cold(self, now: float) -> bool:
        return self.was_empty and now - self.asked_at < COLD_SECONDS


@dataclass(frozen=True, slots=True)
class Along:
    """A poll that goes along with a report: when it was asked and what was found, or the error of the request."""

    queue: Queue
    worker_id: WorkerId
    answer: "asyncio.Future[tuple[Polled | None, float]]"


def _forgotten(task_type: TaskType, worker_id: WorkerId) -> None:
    """Where nobody looks for it, its response timeout brings the task back."""
    del task_type, worker_id


@dataclass
class Polling:
    desk: Desk
    queues: Sequence[Queue]
    slots: int
    failed: Callable[[ConductorError], None]
    answered: Callable[[], None]
    lost: Callable[[TaskType, WorkerId], None] = field(default=_forgotten)
    """Called for a poll that broke off: it may have been given a task."""
    idle: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _stop: "asyncio.Task[bool] | None" = None
    _failures: int = 0
    _not_before: float = 0.0

    def along(self, name: str, task_type: TaskType) -> Along | None:
        """A poll to go with the report of a task of this type, if that is the poll that this slot would make next.

        `next` has to be called with it, whatever becomes of the report.
        """
        now = time.monotonic()
        queue = choose(self.queues, now)
        if queue is None or queue.task_type != task_type or not queue.has_more:
            return None
        if self.stopping.is_set() or now < self._not_before:
            return None
        queue.asking, queue.asked_at = queue.asking + 1, now
        return Along(queue, nonce(name), asyncio.get_running_loop().create_future())

    async def next(self, name: str, can_run: Callable[[], bool], along: Along | None = None) -> tuple[Polled, float] | None:
        """A task for this slot and when it was asked for; None once the worker stops or the slot cannot run one any more."""
        self.idle += 1
        try:
            if along is not None and (found := await self._taken(along.queue, along.worker_id, along.answer)):
                return found
            while not self.stopping.is_set() and can_run():
                now = time.monotonic()
                queue = choose(self.queues, now)
                if queue is None or now < self._not_before:
                    await self._rest()
                    continue
                worker_id, wait = nonce(name), patience(self.queues, queue, self.idle, now)
                queue.asking, queue.asked_at = queue.asking + 1, now
                if found := await self._taken(queue, worker_id, self._poll(queue.task_type, worker_id, wait)):
                    return found
            return None
        finally:
            self.idle -= 1

    def hold(self, task_type: TaskType, *, held: bool) -> None:
        for queue in self.queues:
            if queue.task_type == task_type:
                queue.is_held = held
        self._wake()

    def stop(self) -> None:
        self.stopping.set()
        self._wake()

    async def _poll(self, task_type: TaskType, worker_id: WorkerId, wait: float) -> tuple[Polled | None, float]:
        asked_at = time.monotonic()
        return await self.desk.call(self.desk.conductor.poll, task_type, worker_id, wait_seconds=wait), asked_at

    async def _taken(
        self, queue: Queue, worker_id: WorkerId, asking: Awaitable[tuple[Polled | None, float]]
    ) -> tuple[Polled, float] | None:
        """What a poll that was begun found; nothing of it is kept from the next one to ask once the worker stops."""
        try:
            found, asked_at = await self._unless_stopped(asking)
        except ConductorError as error:
            if isinstance(error, ConductorUnknown):
                self.lost(queue.task_type, worker_id)
            self._pause(error)
            return None
        finally:
            queue.asking -= 1
        if self._failures:
            self._failures = 0
            self.answered()
        queue.was_empty = found is None
        queue.has_more = found is not None and (queue.has_more or time.monotonic() - asked_at < AT_ONCE_SECONDS)
        queue.allowed = min(queue.allowed + 1, self.slots) if found else 1
        self._wake()
        if found is not None and self.stopping.is_set():
            await self._hand_back(found)
            return None
        return None if found is None else (found, asked_at)

    async def _unless_stopped(self, asking: Awaitable[tuple[Polled | None, float]]) -> tuple[Polled | None, float]:
        """A poll may have taken a task, so it is waited for; but a server that hangs does not keep the worker from stopping."""
        poll = asyncio.ensure_future(asking)
        if self._stop is None:
            self._stop = asyncio.create_task(self.stopping.wait())
        await asyncio.wait([poll, self._stop], return_when=asyncio.FIRST_COMPLETED)
        if not poll.done():
            await asyncio.wait([poll], timeout=LONG_SECONDS + STOP_SLACK)
        return poll.result() if poll.done() else (None, 0.0)

    async def _hand_back(self, polled: Polled) -> None:
        """It came in while the worker was told to stop: the next one to ask gets it."""
        with contextlib.suppress(ConductorError):
            await self.desk.call(self.desk.conductor.hand_back, polled.attempt)

    def _pause(self, error: ConductorError) -> None:
        self._failures += 1
        for queue in self.queues:
            queue.allowed, queue.has_more = 1, False
        self._not_before = time.monotonic() + pause_after(self._failures)
        self.failed(error)

    async def _rest(self) -> None:
        """Until something changes, or until Conductor may be asked again after a failure."""
        pause = self._not_before - time.monotonic()
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), pause if pause > 0 else LONG_SECONDS)

    def _wake(self) -> None:
        self._changed.set()


def choose(queues: Sequence[Queue], now: float) -> Queue | None:
    """The one with the fewest asking, among those the one that waited longest: none starves another, no empty one delays."""
    open_ones = [queue for queue in queues if queue.asking < queue.allowed and not queue.is_held]
    return min(open_ones, key=lambda queue: (queue.is_cold(now), queue.asking, queue.asked_at), default=None)


def patience(queues: Sequence[Queue], asked: Queue, idle: int, now: float) -> float:
    """How long the next poll may wait: not where another queue would have given a task meanwhile.

    One that was found empty just now is asked only where no other may be, so nothing is missed by waiting there a little.
    """
    elsewhere = any(queue.has_more and not queue.is_held for queue in queues if queue is not asked)
    if idle >= len(queues) and not elsewhere:
        return LONG_SECONDS
    return SHORT_SECONDS if asked.is_cold(now) or all(queue.was_empty for queue in queues) else 0.0


def pause_after(failures: int) -> float:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))
    return longest * (0.5 + random.random() / 2)  # noqa: S311  jitter, so that workers do not come back all at once


def nonce(name: str) -> WorkerId:
    """The slot's name, and what tells this poll from every other."""
    return WorkerId(f"{name}-{secrets.token_hex(6)}")
