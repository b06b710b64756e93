"""Between Conductor and the slots: takes a task for each idle slot, looks after the attempt, and delivers its end."""

import asyncio
import collections
import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from perago import ipc
from perago.attempt import outcome as failures
from perago.conductor import reporting
from perago.conductor.port import Polled
from perago.errors import ConductorError, PeragoError, TaskInputError, TaskStatus
from perago.events import Done, Event, Phase, Progress, Removed, Revoked
from perago.model import CommitId, Outcome
from perago.protocol import staging_names
from perago.supervisor import logs, metrics
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.lakefs_health import LakeWatch
from perago.supervisor.poller import Along, Polling
from perago.supervisor.slot import Slot
from perago.supervisor.supervised_attempt import Running

RECENT = 20
HARD_REPORT_SECONDS = 5.0
UNDELIVERED = 3
"""Results on their way to Conductor beyond one per slot."""


class Broker:
    """Owns the attempts that run.

    `clear` removes what a dead executor left of an attempt; `restore` puts back on the branch what Conductor accepted instead of
    an attempt's result. Both are called in a thread.
    """

    def __init__(
        self,
        desk: Desk,
        tasks: Mapping[str, ipc.TaskFacts],
        counters: metrics.Metrics,
        log: logs.Logger,
        clear: Callable[[Running], None],
        restore: Callable[[Running, CommitId], list[Event]],
    ) -> None:
        self.recent: collections.deque[dict[str, Any]] = collections.deque(maxlen=RECENT)
        self.cut_short = 0
        self.conductor_is_up = True
        self._desk = desk
        self._tasks = tasks
        self._metrics = counters
        self._log = log
        self._clear = clear
        self._restore = restore
        self._report_until = float("inf")
        self._pending: set[asyncio.Task[Any]] = set()
        self._undelivered: set[asyncio.Task[Any]] = set()
        self._slots: dict[str, Slot] = {}
        self._lake: LakeWatch | None = None

    def watch_lake(self, lake: LakeWatch) -> None:
        self._lake = lake

    async def serve(self, slot: Slot, polling: Polling) -> None:
        """One slot's life: until the worker stops."""
        along: Along | None = None
        while along is not None or await slot.ready():
            if along is None:
                await self._room(polling)
            found = await polling.next(slot.name, lambda: slot.can_run, along)
            along = None if found is None else await self._attend(slot, polling, *found)
        await slot.close()

    async def _room(self, polling: Polling) -> None:
        """Results that Conductor does not take yet pile up only so far: each holds a thread that leases may need."""
        while not self._has_room(polling) and not polling.stopping.is_set():
            await asyncio.wait(self._undelivered, return_when=asyncio.FIRST_COMPLETED)

    def _has_room(self, polling: Polling) -> bool:
        return len(self._undelivered) < polling.slots + UNDELIVERED

    def stop_hard(self, slots: list[Slot]) -> None:
        """Call off what runs; whatever has to be said to Conductor is said within a few seconds, or not at all."""
        self._report_until = time.monotonic() + HARD_REPORT_SECONDS
        for slot in slots:
            if slot.running is not None:
                slot.running.call_off("the worker was stopped")
                self._spawn(slot.interrupt(slot.running, hard=True))

    async def settle(self) -> None:
        """Until nothing is left to deliver or to clean up."""
        while self._pending:
            await asyncio.wait(self._pending)

    # one attempt

    async def _attend(self, slot: Slot, polling: Polling, polled: Polled, polled_at: float) -> Along | None:
        """One attempt to its outcome, whose report may have taken the next poll along."""
        if not slot.can_run and await self._handed_back(polled):
            return None
        execution_id = staging_names.execution_id(time.time(), secrets.token_bytes(8))
        running = Running(polled, self._tasks[polled.attempt.task_type], execution_id, self._desk, self, polled_at=polled_at)
        self._slots[execution_id] = slot
        # Once it has begun: nobody is kept waiting for a line.
        asyncio.get_running_loop().call_soon(self._begins, slot.name, running)
        running.watch()
        outcome = refusal(polled) or await slot.run(running)
        # The executor is free again: it need not wait until Conductor has taken the result.
        can_go_on = slot.can_run and self._has_room(polling)
        along = polling.along(slot.name, running.attempt.task_type) if can_go_on else None
        concluding = self._spawn(self._conclude(slot.name, running, outcome, along))
        self._undelivered.add(concluding)
        concluding.add_done_callback(self._undelivered.discard)
        return along

    def _begins(self, name: str, running: Running) -> None:
        self._log.debug("attempt begins", slot=name, **logs.of_attempt(running.attempt, running.execution_id))

    async def _handed_back(self, polled: Polled) -> bool:
        """Its executor died while it was asked for, and nobody knows how long the next one takes: others may have it sooner."""
        try:
            await self._desk.call(self._desk.conductor.hand_back, polled.attempt)
        except ConductorError:
            return False
        return True

    async def _conclude(self, name: str, running: Running, outcome: Outcome, along: Along | None) -> None:
        if running.death is not None:
            self._spawn(self._desk.call(self._clear, running))
        delivery = await running.deliver(outcome, until=lambda: self._report_until, along=along)
        self._slots.pop(running.execution_id, None)
        if isinstance(delivery, reporting.Superseded) and delivery.accepted is not None and running.facts.needs_lake:
            self._spawn(self._put_back(running, delivery.accepted))
        if running.cancel_reason is not None and outcome.status is not TaskStatus.COMPLETED:
            self.cut_short += 1
        if outcome.status is not TaskStatus.COMPLETED and running.facts.needs_lake and self._lake is not None:
            self._lake.doubt()
        self._sum_up(name, running, outcome, delivery)

    async def _put_back(self, running: Running, accepted: CommitId) -> None:
        """Conductor completed the task with another execution's commit: that one belongs on the branch."""
        about = logs.of_attempt(running.attempt, running.execution_id)
        try:
            for event in await self._desk.call(self._restore, running, accepted):
                self.happened(running, event)
                if isinstance(event, Removed):
                    await self._tell(running, str(event))
        except PeragoError as error:
            self._log.error(
                "the accepted commit could not be put back; run `perago doctor`", accepted=accepted, error=str(error), **about
            )

    def _sum_up(self, name: str, running: Running, outcome: Outcome, delivery: reporting.Delivery) -> None:
        """The one line that says what became of an attempt; tracebacks follow it."""
        word = metrics.delivery_word(delivery)
        self._metrics.ended(running.attempt.task_type, outcome.status.value, delivery)
        line = {
            **logs.of_attempt(running.attempt, running.execution_id),
            "slot": name,
            "status": outcome.status.value,
            "delivery": word,
            **running.tally.summary(),
        }
        if outcome.reason is not None:
            line["reason"] = outcome.reason
        if not isinstance(delivery, reporting.Accepted):
            line["delivery_reason"] = delivery.reason
        well = outcome.status is TaskStatus.COMPLETED and word == "accepted"
        (self._log.info if well else self._log.warning)("attempt", **line)
        if outcome.log:
            self._log.error("traceback", **logs.of_attempt(running.attempt, running.execution_id), text="\n".join(outcome.log))
        self.recent.append({"ended_at": time.time(), **line})

    # what attempts and polls tell

    def happened(self, running: Running, event: Event) -> None:
        self._metrics.happened(running.attempt.task_type, event)
        if isinstance(event, Progress) and running.tidings.are_due(event, time.monotonic()):
            self._log.info("progress", note=event.note, **logs.of_attempt(running.attempt, running.execution_id))
            self._spawn(self._tell(running, event.note))
        about = logs.of_attempt(running.attempt, running.execution_id)
        match event:
            case Done(phase=Phase.CLEAN_UP, error=str(error)):
                self._log.warning(event.detail or event.action, error=error, **about)
            case Removed():
                self._log.warning(
                    "commit removed from the target branch",
                    removal=event.removal.value,
                    branch=event.branch,
                    removed_commit=event.commit,
                    head=event.head,
                    why=event.why,
                    **about,
                )
            case Revoked(rival, was_live=True):
                self._log.warning("revoked a live rival that started later", rival=rival, **about)
            case _:
                pass

    async def _tell(self, running: Running, note: str) -> None:
        """In Conductor's task log, for whoever waits there. One that does not arrive is followed by others."""
        with contextlib.suppress(ConductorError):
            await self._desk.call(self._desk.conductor.log, running.attempt.task_id, [note])

    def lease_extended(self, lateness: float) -> None:
        self._metrics.lease_extended(lateness)

    def called_off(self, running: Running) -> None:
        self._metrics.called_off(running.attempt.task_type)
        self._log.warning(
            "attempt called off", cause=running.cancel_reason, **logs.of_attempt(running.attempt, running.execution_id)
        )
        slot = self._slots.get(running.execution_id)
        if slot is not None:
            self._spawn(slot.interrupt(running, hard=False))

    def conductor_failed(self, error: ConductorError) -> None:
        """Said once per outage."""
        if self.conductor_is_up:
            self.conductor_is_up = False
            self._metrics.conductor(up=False)
            self._log.error("Conductor cannot be reached; trying again until it can", error=str(error))

    def conductor_answered(self) -> None:
        if not self.conductor_is_up:
            self.conductor_is_up = True
            self._metrics.conductor(up=True)
            self._log.info("Conductor answers again")

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task


def refusal(polled: Polled) -> Outcome | None:
    """For an attempt that cannot even be passed on; every retry would get the same input."""
    if not polled.input_is_elsewhere:
        return None
    error = TaskInputError(
        "the input is too large: Conductor moved it to its external payload storage, which Perago does not read; "
        "pass large data as files of the workspace, or raise conductor.app.taskInputPayloadSizeThreshold on the server"
    )
    return failures.failed(error)
