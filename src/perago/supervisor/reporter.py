"""Reports outcomes to Conductor, several at a time, while the slots run the next tasks."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from perago.conductor import reporting
from perago.errors import ConductorRejected, PeragoError, TaskStatus
from perago.events import Event, Removed
from perago.model import CommitId, Outcome
from perago.supervisor import recorder
from perago.supervisor.context import WorkerContext
from perago.supervisor.supervised_attempt import REQUEST_SECONDS, SupervisedAttempt

HARD_REPORT_SECONDS = 5.0
"""Time for reports after a hard stop."""
EXTRA_REPORTS = 3
"""Reports in progress beyond one per slot."""
FRESH_SECONDS = 0.2
"""Within this time after its poll, an attempt that publishes nothing is reported without a check that it is current."""
FENCED_SECONDS = 0.02
"""Within this time after an attempt fence that passed, its outcome is reported without another check that it is current: no
execution that was handed out since can have published, because it has to send a dozen requests first."""

CleanUp = Callable[[SupervisedAttempt], None]
Restore = Callable[[SupervisedAttempt, CommitId], list[Event]]


class Reporter:
    """Reports run as tasks of the worker's group.

    `clean_up` removes what a dead executor left of an attempt; `restore` restores the commit that Conductor accepted instead of
    the outcome. Both block and run in a thread. `on_failure` is called for a failed attempt that needs lakeFS.
    """

    def __init__(
        self, context: WorkerContext, slots: int, clean_up: CleanUp, restore: Restore, on_failure: Callable[[], None]
    ) -> None:
        self._context = context
        self._limit = slots + EXTRA_REPORTS
        self._clean_up = clean_up
        self._restore = restore
        self._on_failure = on_failure
        self._reports: set[asyncio.Task[None]] = set()

    @property
    def has_capacity(self) -> bool:
        return len(self._reports) < self._limit

    async def wait_for_capacity(self) -> None:
        """Wait while too many reports are in progress: each occupies a thread that lease extensions may need."""
        while not self.has_capacity and not self._context.shutdown.is_draining:
            await asyncio.wait({*self._reports, self._context.shutdown.draining}, return_when=asyncio.FIRST_COMPLETED)

    def start(self, slot: str, attempt: SupervisedAttempt, outcome: Outcome, next_poll: reporting.NextPoll | None) -> None:
        """Report in the background; `next_poll` is sent with the report and always gets a reply."""
        task = self._context.start(self._report(slot, attempt, outcome, next_poll))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report(
        self, slot: str, attempt: SupervisedAttempt, outcome: Outcome, next_poll: reporting.NextPoll | None
    ) -> None:
        if attempt.exit_status is not None or not attempt.executor_is_done.done():
            self._context.start(self._clean_up_after(attempt))
        outcome = replace(outcome, printed=attempt.printed.take())
        delivery = await self.deliver(attempt, outcome, next_poll)
        if isinstance(delivery, reporting.Superseded) and delivery.accepted is not None and attempt.facts.needs_lake:
            self._context.start(self._restore_accepted(attempt, delivery.accepted))
        if outcome.status is not TaskStatus.COMPLETED and attempt.facts.needs_lake:
            self._on_failure()
        if not attempt.executor_is_done.done():
            # The line about the attempt contains its clean-up.
            await asyncio.wait({attempt.executor_is_done})
        self._context.observe(
            recorder.AttemptReported(
                attempt.attempt,
                attempt.execution_id,
                slot,
                outcome,
                delivery,
                {**attempt.origin, **attempt.stats.summary()},
                was_cancelled=attempt.cancellation.done(),
            )
        )

    async def _clean_up_after(self, attempt: SupervisedAttempt) -> None:
        """Remove what the executor left, if it ended during the attempt or while it cleaned up."""
        await asyncio.wait({attempt.executor_is_done})
        if attempt.exit_status is not None:
            await self._context.calls.run(self._clean_up, attempt)

    async def deliver(
        self, attempt: SupervisedAttempt, outcome: Outcome, next_poll: reporting.NextPoll | None = None
    ) -> reporting.Delivery:
        """Report an outcome. No other request of the attempt is sent meanwhile, and none after its lease or a hard stop."""
        attempt.end_lease()
        async with attempt.requests:
            try:
                delivery = await self._deliver(attempt, outcome, next_poll)
            except ConductorRejected as error:
                reason = f"Conductor rejected the result: {error}"
                refused = replace(
                    outcome, status=TaskStatus.FAILED, output=None, reason=reason, error=type(error).__name__, code=error.code
                )
                try:
                    delivery = await self._deliver(attempt, refused)
                except ConductorRejected as again:
                    delivery = reporting.Unknown(str(again))
        return delivery

    async def _deliver(
        self, attempt: SupervisedAttempt, outcome: Outcome, next_poll: reporting.NextPoll | None = None
    ) -> reporting.Delivery:
        shutdown = self._context.shutdown
        is_fresh = time.monotonic() - attempt.polled_at < FRESH_SECONDS
        return await self._context.calls.run(
            reporting.deliver,
            self._context.calls.conductor,
            attempt.attempt,
            outcome,
            deadline=0.0,
            clock=lambda: time.monotonic() - min(shutdown.hard_since + HARD_REPORT_SECONDS, attempt.lease.deadline),
            request_timeout=max(REQUEST_SECONDS, attempt.facts.completion_seconds),
            next_poll=next_poll,
            unread=is_fresh and not attempt.facts.needs_lake,
            checked=time.monotonic() - attempt.fenced_at < FENCED_SECONDS,
        )

    async def _restore_accepted(self, attempt: SupervisedAttempt, accepted: CommitId) -> None:
        """Conductor completed the task with the commit of another execution: restore that commit."""
        try:
            for event in await self._context.calls.run(self._restore, attempt, accepted):
                attempt.handle_event(event)
                if isinstance(event, Removed):
                    await attempt.write_task_log(str(event))
        except PeragoError as error:
            self._context.observe(recorder.RestoreFailed(attempt.attempt, attempt.execution_id, accepted, str(error)))
