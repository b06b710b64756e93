"""Which idle slot polls Conductor for which task type, and when.

A poll asks for one task, so that a ready one is never held back for others. Where every type can have a slot waiting, polls are
long. Where slots are fewer than types, the slots rotate: short polls while all queues are empty, polls that do not wait at all
while one has work, and the empty ones then only from time to time. While nothing is found one slot per type polls; each task
found lets one more slot poll beside it. Only a slot with a free executor polls, so no task is taken that cannot begin at once.

While a queue gives tasks without waiting, the next poll is sent with the report of the task before: one request less.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from perago.conductor import reporting
from perago.conductor.port import Polled
from perago.errors import ConductorError, ConductorUnknown
from perago.model import TaskType, WorkerId
from perago.process.backoff import Backoff
from perago.supervisor import recorder
from perago.supervisor.context import BlockingCalls
from perago.supervisor.shutdown import Shutdown

LONG_SECONDS = 1.0
"""Of a long poll; also how long an idle worker may need to stop."""
STOP_SLACK = 0.5
SHORT_SECONDS = 0.1
EMPTY_SECONDS = 0.25
"""How long a queue that was found empty is not polled while others have work."""
SERVER_BACKOFF = Backoff(first=0.25, longest=10.0, jitter=(0.5, 1.0))
"""After requests that found no server. With jitter, so that workers do not come back all at once."""
AT_ONCE_SECONDS = 0.1
"""A task that comes sooner was waiting in the queue, and others probably are."""


@dataclass(slots=True)
class PollTarget:
    """One task type: how many slots poll for it, how many may, and when the last one did."""

    task_type: TaskType
    in_flight: int = 0
    allowed: int = 1
    polled_at: float = 0.0
    was_empty: bool = True
    has_more: bool = False
    """One of its tasks came at once, and every poll since then has found another."""
    is_paused: bool = False
    """Not polled while a server that its tasks need is away."""

    def was_just_empty(self, now: float) -> bool:
        return self.was_empty and now - self.polled_at < EMPTY_SECONDS


@dataclass
class Poller:
    """`lost` is called for a poll that broke off: Conductor may have handed out a task to it."""

    calls: BlockingCalls
    targets: Sequence[PollTarget]
    slots: int
    shutdown: Shutdown
    observe: recorder.Observe
    lost: Callable[[TaskType, WorkerId], None]
    idle: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: int = 0
    _not_before: float = 0.0

    async def next(
        self, slot: str, can_run: Callable[[], bool], sent: reporting.NextPoll | None = None
    ) -> tuple[Polled, float] | None:
        """A task for this slot and when it was polled; None once the worker drains or the slot cannot run one any more.

        `sent` is a poll that `next_with_report` began.
        """
        self.idle += 1
        try:
            if sent is not None:
                reply = asyncio.wrap_future(sent.reply)
                if found := await self._reply(sent.worker_id, self._target(sent.task_type), reply):
                    return found
            while not self.shutdown.is_draining and can_run():
                now = time.monotonic()
                target = choose_target(self.targets, now)
                if target is None or now < self._not_before:
                    await self._wait_for_change()
                    continue
                worker_id, wait = unique_worker_id(slot), poll_wait(self.targets, target, self.idle, now)
                target.in_flight, target.polled_at = target.in_flight + 1, now
                if found := await self._reply(worker_id, target, self._poll(target.task_type, worker_id, wait)):
                    return found
            return None
        finally:
            self.idle -= 1

    def next_with_report(self, slot: str, task_type: TaskType) -> reporting.NextPoll | None:
        """A poll to send with the report of a task of this type, if that is the poll that this slot would make next.

        `next` has to be called with it, whatever happens to the report.
        """
        now = time.monotonic()
        target = choose_target(self.targets, now)
        if target is None or target.task_type != task_type or not target.has_more:
            return None
        if self.shutdown.is_draining or now < self._not_before:
            return None
        target.in_flight, target.polled_at = target.in_flight + 1, now
        return reporting.NextPoll(task_type, unique_worker_id(slot))

    def pause(self, task_types: Sequence[TaskType], *, paused: bool) -> None:
        for target in self.targets:
            if target.task_type in task_types:
                target.is_paused = paused
        self._changed.set()

    async def _poll(self, task_type: TaskType, worker_id: WorkerId, wait: float) -> reporting.PollReply:
        sent_at = time.monotonic()
        return await self.calls.run(self.calls.conductor.poll, task_type, worker_id, wait_seconds=wait), sent_at

    async def _reply(
        self, worker_id: WorkerId, target: PollTarget, poll: Awaitable[reporting.PollReply]
    ) -> tuple[Polled, float] | None:
        """What a poll found; a task that comes while the worker drains is handed back."""
        try:
            found, sent_at = await self._unless_draining(poll)
        except ConductorError as error:
            if isinstance(error, ConductorUnknown):
                self.lost(target.task_type, worker_id)
            self._back_off(error)
            return None
        finally:
            target.in_flight -= 1
        if self._failures:
            self._failures = 0
            self.observe(recorder.ConductorAnswered())
        target.was_empty = found is None
        target.has_more = found is not None and (target.has_more or time.monotonic() - sent_at < AT_ONCE_SECONDS)
        target.allowed = min(target.allowed + 1, self.slots) if found else 1
        self._changed.set()
        if found is None:
            return None
        if self.shutdown.is_draining:
            with contextlib.suppress(ConductorError):
                await self.calls.run(self.calls.conductor.hand_back, found.attempt)
            return None
        return found, sent_at

    async def _unless_draining(self, awaited: Awaitable[reporting.PollReply]) -> reporting.PollReply:
        """A poll may have taken a task, so it is waited for; but a server that hangs does not keep the worker from stopping."""
        poll = asyncio.ensure_future(awaited)
        await asyncio.wait({poll, self.shutdown.draining}, return_when=asyncio.FIRST_COMPLETED)
        if not poll.done():
            await asyncio.wait({poll}, timeout=LONG_SECONDS + STOP_SLACK)
        return poll.result() if poll.done() else (None, 0.0)

    def _back_off(self, error: ConductorError) -> None:
        self._failures += 1
        for target in self.targets:
            target.allowed, target.has_more = 1, False
        self._not_before = time.monotonic() + SERVER_BACKOFF.pause(self._failures)
        self.observe(recorder.ConductorFailed(str(error)))

    async def _wait_for_change(self) -> None:
        """Until another poll has its reply, or until Conductor may be asked again after a failure."""
        pause = self._not_before - time.monotonic()
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        timeout = pause if pause > 0 else LONG_SECONDS
        await asyncio.wait({changed, self.shutdown.draining}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()

    def _target(self, task_type: TaskType) -> PollTarget:
        return next(target for target in self.targets if target.task_type == task_type)


def choose_target(targets: Sequence[PollTarget], now: float) -> PollTarget | None:
    """The one with the fewest polls, of those the one not polled for longest: none starves another, no empty one delays."""
    free = [target for target in targets if target.in_flight < target.allowed and not target.is_paused]
    return min(free, key=lambda target: (target.was_just_empty(now), target.in_flight, target.polled_at), default=None)


def poll_wait(targets: Sequence[PollTarget], polled: PollTarget, idle: int, now: float) -> float:
    """How long the next poll may wait: not at all where another queue would have given a task meanwhile.

    One that was just found empty is polled only if no other may be, so nothing is missed by waiting a little.
    """
    elsewhere = any(target.has_more and not target.is_paused for target in targets if target is not polled)
    if idle >= len(targets) and not elsewhere:
        return LONG_SECONDS
    return SHORT_SECONDS if polled.was_just_empty(now) or all(target.was_empty for target in targets) else 0.0


def unique_worker_id(slot: str) -> WorkerId:
    """The slot's name and a nonce that tells this poll from every other."""
    return WorkerId(f"{slot}-{secrets.token_hex(6)}")
