"""Reports the result of an attempt: sends it, reads back whether Conductor accepted it, and sends it again while that is right.

The caller must not run another request of the same attempt meanwhile: in Conductor the last write wins, and a lease extension
that overlaps a completion erases it.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, cast

from perago.conductor import port
from perago.errors import ConductorError, ConductorNotFound, ConductorUnavailable, ConductorUnknown, TaskStatus
from perago.model import Attempt, CommitId, Outcome, TaskType, WorkerId
from perago.protocol import fence, head
from perago.protocol.statuses import ENDED_WORKFLOW, TaskState

SHORTEST_REQUEST = 0.2
PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
SLOW_REPORT = 0.4
"""Conductor schedules what follows from a report only if it gets the lock of the workflow within half a second. Otherwise the
workflow stands still until a timeout of its tasks, and a report that took this long may have been such a one."""
_DECISIONS = 3
_ACCEPTED_AS: dict[TaskStatus, set[str]] = {
    TaskStatus.COMPLETED: {TaskState.COMPLETED},
    TaskStatus.FAILED: {TaskState.FAILED, TaskState.COMPLETED_WITH_ERRORS},
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: {
        TaskState.FAILED_WITH_TERMINAL_ERROR,
        TaskState.COMPLETED_WITH_ERRORS,
    },
}
"""An optional task that failed counts as completed with errors."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Conductor accepted this result: a read shows it, or it answered the only report of an attempt that publishes nothing."""

    sent: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """Conductor will not accept the attempt any more: timed out, cancelled, rerun, ended by another report, or deleted."""

    reason: str
    accepted: CommitId | None = None
    """The commit that the task was completed with, by this or another execution."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The time was over before a read showed the result. Nothing is sent afterwards."""

    reason: str


Delivery = Accepted | Superseded | Unknown


PollReply = tuple[port.Polled | None, float]
"""The task that a poll was given, if any, and when the poll was sent."""


@dataclass(frozen=True, slots=True)
class NextPoll:
    """A poll for the next task of the same type, sent with the first report.

    `reply` is always completed: with the task, with nothing if the poll was not sent after all, or with the error of the request.
    It is completed in the thread of the delivery, as soon as the reply is there and before the result is read back.
    """

    task_type: TaskType
    worker_id: WorkerId
    reply: Future[PollReply] = field(default_factory=Future[PollReply])


def judge(attempt: Attempt, outcome: Outcome, seen: port.Snapshot) -> Superseded | bool:
    """True: accepted. False: Conductor still waits for a result of this attempt. Otherwise why it will never be accepted."""
    if not fence.same_execution(attempt, seen):
        again = f"the task was handed out again (status {seen.status}, worker {seen.worker_id or 'none'})"
        return Superseded(again, head.accepted_ref(seen))
    if seen.status == TaskState.IN_PROGRESS:
        return Superseded(f"its workflow is {seen.workflow_status}") if seen.workflow_status in ENDED_WORKFLOW else False
    if seen.status not in _ACCEPTED_AS[outcome.status]:
        return Superseded(f"the task is {seen.status}", head.accepted_ref(seen))
    if outcome.output is not None and seen.output and _plain(seen.output) != _plain(outcome.output):
        return Superseded("the task was completed with another output", head.accepted_ref(seen))
    return True


def deliver(  # noqa: PLR0913  clock and sleep are the caller's, for tests
    conductor: port.Conductor,
    attempt: Attempt,
    outcome: Outcome,
    *,
    deadline: float,
    request_timeout: float,
    unread: bool = False,
    checked: bool = False,
    next_poll: NextPoll | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Delivery:
    """Read the task, report, and read again until the result is known, at the latest until `deadline` (by `clock`).

    After a rerun Conductor accepts the result of the previous execution as that of the new one, which may already have replaced
    its publication: hence the read before the first report. Conductor also answers reports that it ignores: hence the read after
    it. `unread` skips both if the first report is answered, for an attempt that was handed out a moment ago and publishes
    nothing: a report that was ignored loses no data, and the timeout of the task retries it. `checked` skips the read before the
    first report, for an attempt whose task the caller has read a moment ago. The first report is sent with `next_poll`.
    `ConductorRejected` is raised: Conductor will never accept this result as it is.
    """
    reports = _Reports(conductor, attempt, outcome, deadline, request_timeout, next_poll, clock)
    try:
        if (unread or checked) and reports.has_time and reports.send() and unread:
            return reports.end(Accepted(reports.sent))
        return reports.send_until_known(sleep)
    finally:
        _release(next_poll)


@dataclass(slots=True)
class _Reports:
    """The reports of one outcome: how many were sent, how long the slowest took, and what went wrong last."""

    conductor: port.Conductor
    attempt: Attempt
    outcome: Outcome
    deadline: float
    request_timeout: float
    next_poll: NextPoll | None
    clock: Callable[[], float]
    sent: int = 0
    slowest: float = 0.0
    trouble: str = "the lease ended first"

    @property
    def left(self) -> float:
        return self.deadline - self.clock()

    @property
    def has_time(self) -> bool:
        return self.left > SHORTEST_REQUEST

    def send_until_known(self, sleep: Callable[[float], None]) -> Delivery:
        while self.has_time:
            verdict = self._read()
            if isinstance(verdict, Superseded):
                return self.end(verdict)
            if verdict is True:
                return self.end(Accepted(self.sent))
            if verdict is False:
                if self.sent:
                    self.trouble = "the task is still in progress after the report"
                if not self.has_time:
                    break
                self.send()
                if self.sent == 1:
                    continue
            sleep(max(0.0, min(PAUSES[min(self.sent, len(PAUSES) - 1)], self.left)))
        return Unknown(self.trouble)

    def send(self) -> bool:
        """Report once, the first time with the next poll; whether Conductor answered."""
        self.sent += 1
        began = self.clock()
        poll = self.next_poll if self.sent == 1 else None
        failure = _send(self.conductor, self.attempt, self.outcome, min(self.request_timeout, self.deadline - began), poll)
        self.slowest = max(self.slowest, self.clock() - began)
        self.trouble = failure or self.trouble
        return failure is None

    def end(self, delivery: Delivery) -> Delivery:
        """After a slow report, let Conductor look at the workflow until a request is so quick that it did not wait for the lock.

        A failure of these requests changes no result.
        """
        for _ in range(_DECISIONS if self.slowest >= SLOW_REPORT else 0):
            began = self.clock()
            if not self.has_time:
                break
            with contextlib.suppress(ConductorError):
                self.conductor.decide(self.attempt.workflow_id)
                if self.clock() - began < SLOW_REPORT:
                    break
        return delivery

    def _read(self) -> Superseded | bool | None:
        """As `judge`; None if Conductor could not be read."""
        try:
            seen = _read(self.conductor, self.attempt, with_workflow=self.sent > 1)
        except ConductorNotFound:
            return Superseded("Conductor no longer has the task")
        except (ConductorUnavailable, ConductorUnknown) as error:
            self.trouble = str(error)
            if not self.sent:
                # The slot that waits for a task is not kept until Conductor can be read again.
                _release(self.next_poll)
                self.next_poll = None
            return None
        return judge(_as_reported(self.attempt, seen, self.next_poll), self.outcome, seen)


def _release(next_poll: NextPoll | None) -> None:
    """A poll that was not sent has found nothing."""
    if next_poll is not None and not next_poll.reply.done():
        next_poll.reply.set_result((None, time.monotonic()))


def _read(conductor: port.Conductor, attempt: Attempt, *, with_workflow: bool) -> port.Snapshot:
    """With the workflow from the second report on: a task that stays in progress may be stuck in a workflow that has ended."""
    return conductor.snapshot(attempt.workflow_id, attempt.task_id) if with_workflow else conductor.task(attempt.task_id)


def _as_reported(attempt: Attempt, seen: port.Snapshot, next_poll: NextPoll | None) -> Attempt:
    """A report that polls leaves the poll's worker id on the task that ended, if it was accepted."""
    if next_poll is not None and seen.worker_id == next_poll.worker_id:
        return replace(attempt, worker_id=next_poll.worker_id)
    return attempt


def _send(
    conductor: port.Conductor, attempt: Attempt, outcome: Outcome, timeout: float, next_poll: NextPoll | None
) -> str | None:
    """Report once; the error's text if it is not certain that Conductor processed the report."""
    try:
        if next_poll is None:
            conductor.report(attempt, outcome, timeout=timeout)
        else:
            _send_and_poll(conductor, attempt, outcome, timeout, next_poll)
    except (ConductorUnavailable, ConductorUnknown, ConductorNotFound) as error:
        return str(error)
    return None


def _send_and_poll(conductor: port.Conductor, attempt: Attempt, outcome: Outcome, timeout: float, next_poll: NextPoll) -> None:
    sent_at = time.monotonic()
    try:
        found = conductor.report_and_poll(attempt, outcome, next_poll.worker_id, timeout=timeout)
    except (ConductorUnavailable, ConductorUnknown) as error:
        next_poll.reply.set_exception(error)
        raise
    except ConductorError:
        # It answered and refused the report, which is no reason to poll less often.
        _release(next_poll)
        raise
    next_poll.reply.set_result((found, sent_at))


def _plain(value: Any) -> Any:
    """JSON for comparison, without nulls: a server may drop them."""
    match value:
        case Mapping():
            items = cast("Mapping[str, Any]", value)
            return {key: _plain(item) for key, item in items.items() if item is not None}
        case list() | tuple():
            return [_plain(item) for item in cast("Sequence[Any]", value)]
        case _:
            return value
