"""Decides which idle slot polls Conductor for which task type, and when.

A poll requests one task, so that Conductor never delays a ready task to fill a batch. If every task type has an idle slot, polls
are long. If there are fewer, the slots rotate: polls are short while all queues are empty; while a queue has tasks, polls do
not wait, and empty queues are polled from time to time only. As long as no task is found, one slot per type polls; each task that
is found permits one more slot to poll for its type. Only a slot with a free executor polls, so that each task can start at once.

The queues of the built-in tasks are empty most of the time. One slot at a time polls them, one queue after the other, and waits
only if two slots more than task types are idle; otherwise it asks once a second without waiting.

While a queue supplies tasks without waiting, the next poll is sent with the report of the previous task, which saves a request. A
worker with one slot sends it beside the report instead: Conductor works on both at the same time, and the slot waits for the
quicker one only.
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
"""Wait time of a long poll; also the time that an idle worker may need to stop."""
STOP_SLACK = 0.5
SHORT_SECONDS = 0.1
EMPTY_SECONDS = 0.25
"""How long an empty queue is not polled while other queues have tasks."""
SERVER_BACKOFF = Backoff(first=0.25, longest=10.0, jitter=(0.5, 1.0))
"""Between requests to a server that cannot be reached. With jitter, so that workers do not all retry at the same time."""
BUILT_IN_SECONDS = 1.0
"""How long an empty queue of a built-in task is not polled."""
AT_ONCE_SECONDS = 0.1
"""A task that arrives within this time was already in the queue, and there are probably more."""


@dataclass(slots=True)
class PollTarget:
    """One task type: how many slots poll for it, how many may, and when the last poll was sent."""

    task_type: TaskType
    in_flight: int = 0
    allowed: int = 1
    polled_at: float = 0.0
    was_empty: bool = True
    has_more: bool = False
    """One of its tasks arrived at once, and every poll since then has found another."""
    is_paused: bool = False
    """Not polled, because a server that its tasks need does not respond."""
    is_built_in: bool = False

    def was_just_empty(self, now: float) -> bool:
        return self.was_empty and now - self.polled_at < EMPTY_SECONDS

    def is_due(self, now: float) -> bool:
        return not self.is_built_in or self.has_more or now - self.polled_at >= BUILT_IN_SECONDS


@dataclass
class Poller:
    """`lost` is called for a poll without a reply: Conductor may have handed out a task to it."""

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
        """A task for this slot and when it was polled; None if the worker drains or the slot can no longer run a task.

        `sent` is a poll that `next_with_report` returned.
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
        """A poll to send with the report of a task of this type, if this slot would poll for that type next; otherwise None.

        `next` must be called with it, whatever happens to the report.
        """
        if self.slots == 1:
            return None
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
        """The task that a poll found, if any; a task that arrives while the worker drains is handed back."""
        try:
            found, sent_at = await self._await_poll(poll)
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

    async def _await_poll(self, awaited: Awaitable[reporting.PollReply]) -> reporting.PollReply:
        """Wait for a poll also while the worker drains, because it may get a task, but then only as long as a long poll takes."""
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
        """Wait until another poll has its reply, or until Conductor may be polled again after a failure."""
        pause = self._not_before - time.monotonic()
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        timeout = pause if pause > 0 else LONG_SECONDS
        await asyncio.wait({changed, self.shutdown.draining}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()

    def _target(self, task_type: TaskType) -> PollTarget:
        return next(target for target in self.targets if target.task_type == task_type)


def choose_target(targets: Sequence[PollTarget], now: float) -> PollTarget | None:
    """The target with the fewest polls in flight, then the least recently polled; queues that were just empty come last."""
    free = [target for target in targets if target.in_flight < target.allowed and not target.is_paused and target.is_due(now)]
    if any(target.in_flight for target in targets if target.is_built_in):
        free = [target for target in free if not target.is_built_in]
    return min(free, key=lambda target: (target.was_just_empty(now), target.in_flight, target.polled_at), default=None)


def poll_wait(targets: Sequence[PollTarget], polled: PollTarget, idle: int, now: float) -> float:
    """Seconds that the next poll may wait on the server: 0 if another queue may have a task.

    A queue that was just found empty is polled only if no other may be, so a short wait delays nothing.
    """
    others_have_more = any(target.has_more and not target.is_paused for target in targets if target is not polled)
    targets = [target for target in targets if not target.is_built_in]
    if polled.is_built_in:
        return LONG_SECONDS if idle >= len(targets) + 2 and not others_have_more else 0.0
    if idle >= len(targets) and not others_have_more:
        return LONG_SECONDS
    return SHORT_SECONDS if polled.was_just_empty(now) or all(target.was_empty for target in targets) else 0.0


def unique_worker_id(slot: str) -> WorkerId:
    """The slot's name and a nonce that is different for each poll."""
    return WorkerId(f"{slot}-{secrets.token_hex(6)}")
