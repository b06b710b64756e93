"""One attempt as the supervisor sees it: keeps its lease, answers its fences, calls it off, delivers its end.

All its requests to Conductor go in single file (`_turn`), because overlapping ones erase each other there.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Protocol, cast

from perago import events, ipc
from perago.conductor import lease, reporting
from perago.conductor.port import Polled
from perago.errors import (
    ConductorError,
    ConductorNotFound,
    ConductorRejected,
    ConductorUnavailable,
    ConductorUnknown,
    StaleAttemptError,
    TaskStatus,
)
from perago.model import (
    BranchName,
    CommitId,
    ExecutionId,
    Outcome,
    Repository,
    Snapshot,
    TaskId,
    WorkflowId,
    WorkspaceRef,
)
from perago.process.exit_status import ExitStatus
from perago.protocol import fence
from perago.supervisor import attempt_stats
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.poller import Along

WATCH_SECONDS = 5.0
"""Between two looks at whether the attempt is still wanted: this late a body learns of it."""
AGAIN_SECONDS = 1.0
YOUNG_SECONDS = 0.2
"""For so long after its poll an attempt that publishes nothing counts as wanted without another look."""
REQUEST_SECONDS = 2.0
"""What an extension or a fence takes at worst on a server that is well."""


class Listener(Protocol):
    """Whom an attempt tells about itself."""

    def happened(self, running: "Running", event: events.Event) -> None: ...
    def lease_extended(self, lateness: float) -> None: ...
    def called_off(self, running: "Running") -> None: ...
    def conductor_failed(self, error: ConductorError) -> None: ...


class Running:
    def __init__(
        self,
        polled: Polled,
        facts: ipc.TaskFacts,
        execution_id: ExecutionId,
        desk: Desk,
        listener: Listener,
        *,
        polled_at: float,
    ) -> None:
        self.polled = polled
        self.attempt = polled.attempt
        self.facts = facts
        self.execution_id = execution_id
        self.lease = lease.start(polled.response_timeout_seconds, polled_at, facts.heartbeat_seconds)
        self.tally = attempt_stats.Tally(time.monotonic())
        self.tidings = attempt_stats.Tidings()
        self.cancel_reason: str | None = None
        self.death: ExitStatus | None = None
        """How its executor died in it."""
        self.tell: Callable[[ipc.ToExecutor], None] = _nobody
        self._polled_at = polled_at
        self._desk = desk
        self._listener = listener
        self._turn = asyncio.Lock()
        self._over = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def workspace(self) -> WorkspaceRef | None:
        """As the input names it; None where it does not, or not rightly (which the executor refuses)."""
        given = self.polled.input.get("workspace")
        if not isinstance(given, Mapping):
            return None
        fields = cast("Mapping[str, object]", given)
        match fields.get("repository"), fields.get("branch"), fields.get("ref"):
            case str(repository), str(branch), str(ref):
                return WorkspaceRef(Repository(repository), BranchName(branch), CommitId(ref))
            case _:
                return None

    # what the executor says

    def heard(self, event: events.Event) -> None:
        self.tally.add(event)
        self._listener.happened(self, event)

    def finished(self, outcome: Outcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    @property
    def outcome(self) -> "asyncio.Future[Outcome]":
        return self._outcome

    # the lease

    def watch(self) -> None:
        """Keep it until it is over, from the first time that something is due: most attempts have ended by then."""
        self._due = asyncio.get_running_loop().call_later(self._pause(), self._begin_to_keep)

    def _begin_to_keep(self) -> None:
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Extend in time, and notice when it is not wanted any more."""
        pause = 0.0
        while not await self._ended_within(pause):
            now = time.monotonic()
            if self.lease.lost(now):
                self.call_off("the lease ran out while Conductor could not be reached")
            elif self._is_overdue(now):
                self.call_off(f"it took longer than its timeout of {self.polled.timeout_seconds:g} s")
            else:
                async with self._turn:
                    pause = self._pause() if await self._look() else AGAIN_SECONDS
            pause = min(pause, max(0.05, self.lease.left(time.monotonic())))
            if self.cancel_reason is not None:
                return

    async def _look(self) -> bool:
        """A fresh read, then the extension if it is due; False if Conductor did not answer."""
        try:
            seen = await self._seen()
            fence.assert_current_attempt_snapshot(self.attempt, seen, self.lease.left(time.monotonic()))
            if not self._over.is_set() and time.monotonic() >= self.lease.extend_at:
                await self._extend()
        except StaleAttemptError as error:
            self.call_off(str(error))
        except ConductorNotFound:
            self.call_off("Conductor no longer knows this task: its workflow was removed or restarted")
        except ConductorError as error:
            self._listener.conductor_failed(error)
            return False
        return True

    async def _seen(self) -> Snapshot:
        return await self._desk.call(self._desk.conductor.snapshot, self.attempt.workflow_id, self.attempt.task_id)

    async def _extend(self) -> None:
        sent_at = time.monotonic()
        self._listener.lease_extended(max(0.0, sent_at - self.lease.extend_at))
        await self._desk.call(self._desk.conductor.extend_lease, self.attempt)
        self.lease = self.lease.renewed(sent_at)
        self.tell(ipc.LeaseMoved(self.lease.deadline))

    def _pause(self) -> float:
        now = time.monotonic()
        due = [now + WATCH_SECONDS, self.lease.extend_at]
        if self.polled.timeout_seconds:
            due.append(self.tally.began + self.polled.timeout_seconds)
        return max(0.05, min(due) - now)

    def _is_overdue(self, now: float) -> bool:
        return 0 < self.polled.timeout_seconds <= now - self.tally.began

    async def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        return self._over.is_set()

    # the attempt fence

    async def fence(self) -> Snapshot:
        """A fresh read with enough lease behind it for publication and completion; tries for as long as that can be."""
        needed = lease.needed(
            extension=REQUEST_SECONDS,
            fence=REQUEST_SECONDS,
            publish=self.facts.publish_seconds,
            completion=self.facts.completion_seconds,
        )
        async with self._turn:
            while True:
                try:
                    seen = await self._seen()
                    if self.lease.fits(time.monotonic(), needed=needed) and time.monotonic() < self.lease.extend_at:
                        return seen
                    if not fence.is_current(self.attempt, seen):
                        # An extension now would be written over whatever its new owner does.
                        return seen
                    await self._extend()
                    return await self._seen()
                except (ConductorUnavailable, ConductorUnknown) as error:
                    await self._try_again_after(error)

    async def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None) -> Snapshot:
        """Another task, as it is now; tries for as long as this attempt could still report."""
        conductor = self._desk.conductor
        while True:
            try:
                if workflow_id is None:
                    return await self._desk.call(conductor.task, task_id)
                return await self._desk.call(conductor.snapshot, workflow_id, task_id)
            except (ConductorUnavailable, ConductorUnknown) as error:
                await self._try_again_after(error)

    async def _try_again_after(self, error: ConductorError) -> None:
        """A pause, or the error where no answer could come in time."""
        self._listener.conductor_failed(error)
        if self.lease.left(time.monotonic()) < self.facts.completion_seconds or self.cancel_reason is not None:
            raise error
        await asyncio.sleep(AGAIN_SECONDS)

    # the end

    def call_off(self, reason: str) -> None:
        """Tell the body, once; the slot interrupts and kills what does not listen."""
        if self.cancel_reason is None and not self._outcome.done():
            self.cancel_reason = reason
            self.tell(ipc.Cancel(self.execution_id, reason))
            self._listener.called_off(self)

    async def deliver(self, outcome: Outcome, *, until: Callable[[], float], along: Along | None = None) -> reporting.Delivery:
        """Nothing else of this attempt is sent beside it, and nothing after its lease or `until`, which may come nearer."""
        self._over.set()
        if self._due is not None:
            self._due.cancel()
        async with self._turn:
            try:
                with _answered(along) as next_poll:
                    delivery = await self._deliver(outcome, until, next_poll)
            except ConductorRejected as error:
                refused = replace(
                    outcome, status=TaskStatus.FAILED, output=None, reason=f"Conductor did not take the result: {error}"
                )
                try:
                    delivery = await self._deliver(refused, until)
                except ConductorRejected as again:
                    delivery = reporting.Unknown(str(again))
        if self._keeper is not None:
            await self._keeper
        return delivery

    async def _deliver(
        self, outcome: Outcome, until: Callable[[], float], next_poll: reporting.NextPoll | None = None
    ) -> reporting.Delivery:
        return await self._desk.call(
            reporting.deliver,
            self._desk.conductor,
            self.attempt,
            outcome,
            deadline=0.0,
            clock=lambda: time.monotonic() - min(until(), self.lease.deadline),
            request_timeout=max(REQUEST_SECONDS, self.facts.completion_seconds),
            next_poll=next_poll,
            unread=not self.facts.needs_lake and time.monotonic() - self._polled_at < YOUNG_SECONDS,
        )


@contextlib.contextmanager
def _answered(along: Along | None) -> Generator[reporting.NextPoll | None]:
    """The poll as a delivery takes it along, in a thread; one that was not sent after all has found nothing."""
    if along is None:
        yield None
        return
    loop, future = asyncio.get_running_loop(), along.answer

    def settle(found: Polled | ConductorError | None, asked_at: float) -> None:
        if future.done():
            return
        if isinstance(found, ConductorError):
            future.set_exception(found)
        else:
            future.set_result((found, asked_at))

    def answer(found: Polled | ConductorError | None, asked_at: float) -> None:
        loop.call_soon_threadsafe(settle, found, asked_at)

    try:
        yield reporting.NextPoll(along.worker_id, answer)
    finally:
        settle(None, time.monotonic())


def _nobody(_message: ipc.ToExecutor) -> None:
    """Before an executor has it, nobody needs to be told."""
