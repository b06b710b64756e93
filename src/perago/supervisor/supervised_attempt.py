"""One attempt, as the supervisor controls it: extends its lease, answers its fences, cancels it when it is no longer current.

All its requests to Conductor are sent one after the other (`requests`), because concurrent updates overwrite each other there.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, cast

from perago import events, ipc
from perago.conductor import lease
from perago.conductor.port import Polled
from perago.errors import (
    ConductorError,
    ConductorNotFound,
    ConductorUnavailable,
    ConductorUnknown,
    StaleAttemptError,
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
from perago.process import waiting
from perago.process.exit_status import ExitStatus
from perago.protocol import fence
from perago.supervisor import logs, printed_lines, recorder
from perago.supervisor.attempt_stats import AttemptStats
from perago.supervisor.context import WorkerContext
from perago.supervisor.printed_lines import PrintedLines

CHECK_SECONDS = 5.0
"""Time between two checks whether the attempt is current, and so the longest delay of a cancellation."""
RETRY_SECONDS = 1.0
REQUEST_SECONDS = 2.0
"""Longest time of a lease extension or a fence on a working server."""


class SupervisedAttempt:
    """Exists from the poll until the report. `send` passes a message to the executor that runs this execution, if any."""

    def __init__(
        self,
        polled: Polled,
        polled_at: float,
        execution_id: ExecutionId,
        context: WorkerContext,
        send: Callable[[ExecutionId, ipc.ToExecutor], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.polled = polled
        self.polled_at = polled_at
        self.attempt = polled.attempt
        self.facts = context.tasks[polled.attempt.task_type]
        self.execution_id = execution_id
        self.lease = lease.start(polled.response_timeout_seconds, polled_at, self.facts.heartbeat_seconds)
        self.stats = AttemptStats(time.monotonic())
        self.printed = PrintedLines(self.stats.began + printed_lines.FIRST_SECONDS)
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.executor_is_done: asyncio.Future[None] = loop.create_future()
        """Done when the executor has cleaned up after the attempt, or has ended, or never began."""
        self.cancellation: asyncio.Future[str] = loop.create_future()
        """Done, with the reason, when the attempt is cancelled."""
        self.exit_status: ExitStatus | None = None
        """How its executor ended, if it ended during the attempt."""
        self.fenced_at = -math.inf
        """When the last attempt fence that passed began to read, by the monotonic clock."""
        self.requests = asyncio.Lock()
        self._context = context
        self._conductor = context.calls.conductor
        self._send = send
        self._is_over = asyncio.Event()
        self._first_check: asyncio.TimerHandle | None = None

    @property
    def workspace(self) -> WorkspaceRef | None:
        """As the input names it; None if it is missing or malformed (the executor refuses such input)."""
        given = self.polled.input.get("workspace")
        if not isinstance(given, Mapping):
            return None
        fields = cast("Mapping[str, object]", given)
        match fields.get("repository"), fields.get("branch"), fields.get("ref"):
            case str(repository), str(branch), str(ref):
                return WorkspaceRef(Repository(repository), BranchName(branch), CommitId(ref))
            case _:
                return None

    @property
    def origin(self) -> dict[str, str]:
        """Log fields: the step of the workflow, and the data that it starts from."""
        return logs.of_origin(self.attempt, self.polled.workflow_name, self.workspace)

    @property
    def cancel_reason(self) -> str | None:
        return self.cancellation.result() if self.cancellation.done() else None

    def cancel(self, reason: str) -> None:
        """Cancel the attempt unless it has ended. Its slot notifies the body, then interrupts it, then kills the executor."""
        if not self.cancellation.done() and not self.outcome.done():
            self.cancellation.set_result(reason)
            self._context.observe(recorder.CancelRequested(self.attempt, self.execution_id, reason))

    def handle_message(self, message: ipc.FromAttempt) -> None:
        """Handle a message of the executor about this attempt."""
        match message:
            case ipc.FenceRequest(request):
                self._context.start(self._answer(request, self.fence()))
            case ipc.LookUpRequest(request, task_id, workflow_id):
                self._context.start(self._answer(request, self.look_up(task_id, workflow_id)))
            case ipc.EventEmitted(event):
                self.handle_event(event)
            case ipc.Completed(execution_id, outcome):
                if execution_id == self.execution_id:
                    self._complete(outcome)
            case ipc.Finished(execution_id, outcome):
                if execution_id == self.execution_id:
                    self.finish(outcome)

    def handle_event(self, event: events.Event) -> None:
        self.stats.add(event)
        log_progress = self.stats.progress_is_due(event, time.monotonic())
        self._context.observe(recorder.AttemptEvent(self.attempt, self.execution_id, event, log_progress))
        if log_progress and isinstance(event, events.Progress):
            self.printed.add("progress", event.note)

    def finish(self, outcome: Outcome) -> None:
        """The executor is done with the attempt, or will never begin it. An outcome that was received before stays."""
        self._complete(outcome)
        if not self.executor_is_done.done():
            self.executor_is_done.set_result(None)

    def lose_executor(self, exit_status: ExitStatus, outcome: Outcome) -> None:
        """The executor ended during the attempt, or while it cleaned up after it."""
        self.exit_status = exit_status
        self.finish(outcome)

    def _complete(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    async def _answer(self, request: int, asked: Coroutine[Any, Any, Snapshot]) -> None:
        try:
            seen = await asked
            answer = ipc.Answer(request, self.lease.deadline, seen)
        except ConductorError as error:
            answer = ipc.Answer(request, self.lease.deadline, error=type(error).__name__, message=str(error))
        self._send(self.execution_id, answer)

    async def write_task_log(self, *lines: str) -> None:
        """Add an entry to Conductor's task log. Errors are ignored: the lines are for information only."""
        with contextlib.suppress(ConductorError):
            await self._context.calls.run(self._conductor.log, self.attempt.task_id, lines)

    # the lease

    def start_lease(self) -> None:
        """Schedule the first check of the lease. Most attempts have ended by then and need no task for it."""
        self._first_check = asyncio.get_running_loop().call_later(self._until_next_check(), self._start_lease_task)

    def end_lease(self) -> None:
        """Send no more requests for this attempt except its report, which must hold `requests`."""
        self._is_over.set()
        if self._first_check is not None:
            self._first_check.cancel()

    def _start_lease_task(self) -> None:
        self._context.start(self._keep_lease())

    async def _keep_lease(self) -> None:
        """Extend the lease in time, and cancel the attempt when it is no longer current."""
        pause = 0.0
        while not await self._is_over_within(pause):
            now = time.monotonic()
            if entry := self.printed.entry(now):
                self._context.start(self.write_task_log(*entry))
            if self.lease.lost(now):
                self.cancel("the lease expired while Conductor could not be reached")
            elif 0 < self.polled.timeout_seconds <= now - self.stats.began:
                self.cancel(f"it took longer than its timeout of {self.polled.timeout_seconds:g} s")
            else:
                async with self.requests:
                    if self._is_over.is_set():
                        return
                    pause = self._until_next_check() if await self._check() else RETRY_SECONDS
            pause = min(pause, max(0.05, self.lease.left(time.monotonic())))
            if self.cancellation.done():
                return

    async def _check(self) -> bool:
        """Read the task, and extend the lease if that is due; False if Conductor does not respond."""
        try:
            seen = await self._read()
            fence.assert_current_attempt_snapshot(self.attempt, seen, self.lease.left(time.monotonic()))
            if not self._is_over.is_set() and time.monotonic() >= self.lease.extend_at:
                await self._extend()
        except StaleAttemptError as error:
            self.cancel(str(error))
        except ConductorNotFound:
            self.cancel("Conductor no longer knows this task: its workflow was removed or restarted")
        except ConductorError as error:
            self._context.observe(recorder.ConductorFailed(str(error)))
            return False
        return True

    async def _read(self) -> Snapshot:
        return await self._context.calls.run(self._conductor.snapshot, self.attempt.workflow_id, self.attempt.task_id)

    async def _extend(self) -> None:
        sent_at = time.monotonic()
        self._context.observe(recorder.LeaseRenewed(max(0.0, sent_at - self.lease.extend_at)))
        await self._context.calls.run(self._conductor.extend_lease, self.attempt)
        self.lease = self.lease.renewed(sent_at)
        self._send(self.execution_id, ipc.LeaseDeadline(self.lease.deadline))

    def _until_next_check(self) -> float:
        now = time.monotonic()
        due = [now + CHECK_SECONDS, self.lease.extend_at]
        if self.polled.timeout_seconds:
            due.append(self.stats.began + self.polled.timeout_seconds)
        return max(0.05, min(due) - now)

    async def _is_over_within(self, seconds: float) -> bool:
        return await waiting.is_set_within(self._is_over, seconds)

    # the attempt fence

    async def fence(self) -> Snapshot:
        """Read the task with enough lease left for publication and report; retried for as long as that is possible."""
        needed = lease.needed(
            extension=REQUEST_SECONDS,
            fence=REQUEST_SECONDS,
            publish=self.facts.publish_seconds,
            completion=self.facts.completion_seconds,
        )
        async with self.requests:
            while True:
                try:
                    began = time.monotonic()
                    seen = await self._read_at_once()
                    if self.lease.fits(time.monotonic(), needed=needed) and time.monotonic() < self.lease.extend_at:
                        self.fenced_at = began if fence.is_current(self.attempt, seen) else -math.inf
                        return seen
                    if not fence.is_current(self.attempt, seen):
                        # An extension now would overwrite what the new owner of the task does.
                        return seen
                    await self._extend()
                    return await self._read()
                except (ConductorUnavailable, ConductorUnknown) as error:
                    await self._retry_after(error)

    async def _read_at_once(self) -> Snapshot:
        """Task and workflow in two requests at the same time, for a fence that an attempt waits for.

        It shows what held when the earlier of the two reads was made, in either order: a workflow that has ended does not become
        active again for this execution of the task, nor does the task return to it.
        """
        calls, own = self._context.calls, self.attempt
        seen, run = await asyncio.gather(
            calls.run(self._conductor.task, own.task_id), calls.run(self._conductor.workflow_run, own.workflow_id)
        )
        return replace(seen, workflow_status=run.status, workflow_created=run.created, workflow_ended=run.ended)

    async def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None) -> Snapshot:
        """Read another task; retried for as long as this attempt could still report."""
        while True:
            try:
                if workflow_id is None:
                    return await self._context.calls.run(self._conductor.task, task_id)
                return await self._context.calls.run(self._conductor.snapshot, workflow_id, task_id)
            except (ConductorUnavailable, ConductorUnknown) as error:
                await self._retry_after(error)

    async def _retry_after(self, error: ConductorError) -> None:
        """Wait before a retry; raises the error if there is no time for one."""
        self._context.observe(recorder.ConductorFailed(str(error)))
        if self.lease.left(time.monotonic()) < self.facts.completion_seconds or self.cancellation.done():
            raise error
        await asyncio.sleep(RETRY_SECONDS)
