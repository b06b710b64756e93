"""Turns the events of a worker into log lines and metrics. Nothing else does: all other code calls `observe`."""

import collections
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perago import events
from perago.conductor import reporting
from perago.errors import TaskStatus
from perago.model import Attempt, CommitId, ExecutionId, Outcome
from perago.process.exit_status import ExitStatus
from perago.supervisor import logs, metrics

RECENT = 20
"""Number of ended attempts that `perago status` shows."""


@dataclass(frozen=True, slots=True)
class OfAttempt:
    """An event of one attempt."""

    attempt: Attempt
    execution_id: ExecutionId


@dataclass(frozen=True, slots=True)
class AttemptStarted(OfAttempt):
    slot: str


@dataclass(frozen=True, slots=True)
class AttemptEvent(OfAttempt):
    """An event that the executor emitted, or a restoration after the attempt."""

    event: events.Event
    log_progress: bool = False


@dataclass(frozen=True, slots=True)
class CancelRequested(OfAttempt):
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptReported(OfAttempt):
    """The end of an attempt. `about` has its origin and the summary of its `AttemptStats`, as log fields."""

    slot: str
    outcome: Outcome
    delivery: reporting.Delivery
    about: dict[str, Any]
    was_cancelled: bool


@dataclass(frozen=True, slots=True)
class RestoreFailed(OfAttempt):
    accepted: CommitId
    error: str


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    lateness: float


@dataclass(frozen=True, slots=True)
class ConductorFailed:
    """A request to Conductor failed; logged once per outage."""

    error: str


@dataclass(frozen=True, slots=True)
class ConductorAnswered:
    pass


@dataclass(frozen=True, slots=True)
class LakefsFailed:
    pass


@dataclass(frozen=True, slots=True)
class LakefsAnswered:
    pass


@dataclass(frozen=True, slots=True)
class LostTaskReturned:
    """A task whose poll had no reply was returned to its queue."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ExecutorRestarted:
    slot: str
    exit_status: ExitStatus
    rejection: str | None


@dataclass(frozen=True, slots=True)
class BackgroundFailed:
    """A defect of Perago in background work; the worker continues."""

    work: str
    traceback: str


WorkerEvent = (
    AttemptStarted
    | AttemptEvent
    | CancelRequested
    | AttemptReported
    | RestoreFailed
    | LeaseRenewed
    | ConductorFailed
    | ConductorAnswered
    | LakefsFailed
    | LakefsAnswered
    | LostTaskReturned
    | ExecutorRestarted
    | BackgroundFailed
)
Observe = Callable[[WorkerEvent], None]


class Recorder:
    def __init__(self, counters: metrics.Metrics, log: logs.Logger) -> None:
        self.recent: collections.deque[dict[str, Any]] = collections.deque(maxlen=RECENT)
        self.conductor_is_up = True
        self.lakefs_is_up = True
        self.cancelled = 0
        """Attempts that were cancelled and did not complete."""
        self._metrics = counters
        self._log = log

    def observe(self, event: WorkerEvent) -> None:  # noqa: C901, PLR0912  one case per event
        match event:
            case AttemptStarted():
                self._log.debug("attempt started", slot=event.slot, **_fields(event))
            case AttemptEvent():
                self._attempt_event(event)
            case CancelRequested():
                self._metrics.cancelled(event.attempt.task_type)
                self._log.warning("attempt cancelled", cause=event.reason, **_fields(event))
            case AttemptReported():
                self._reported(event)
            case RestoreFailed():
                text = "the accepted commit could not be restored; run `perago doctor`"
                self._log.error(text, accepted=event.accepted, error=event.error, **_fields(event))
            case LeaseRenewed():
                self._metrics.lease_extended(event.lateness)
            case ConductorFailed():
                if self._set_conductor(up=False):
                    self._log.error("Conductor cannot be reached; requests are retried", error=event.error)
            case ConductorAnswered():
                if self._set_conductor(up=True):
                    self._log.info("Conductor can be reached again")
            case LakefsFailed():
                self._set_lakefs(up=False)
                self._log.error("lakeFS does not respond; tasks that need it are not polled until it does")
            case LakefsAnswered():
                self._set_lakefs(up=True)
                self._log.info("lakeFS responds again")
            case LostTaskReturned():
                text = "returned a task to its queue: the reply to its poll was lost"
                self._log.warning(text, task_type=event.attempt.task_type, task_id=event.attempt.task_id)
            case ExecutorRestarted():
                self._metrics.restarted(event.exit_status)
                cause = f"it {event.exit_status}"
                self._log.error("executor restarted", slot=event.slot, cause=cause, refusal=event.rejection)
            case BackgroundFailed():
                self._log.error("background work failed", work=event.work, text=event.traceback)

    def _attempt_event(self, observed: AttemptEvent) -> None:
        self._metrics.observe(observed.attempt.task_type, observed.event)
        match observed.event:
            case events.Progress(note=note) if observed.log_progress:
                self._log.info("progress", note=note, **_fields(observed))
            case events.Done(phase=events.Phase.CLEAN_UP, error=str(error)) as done:
                self._log.warning(done.detail or done.effect.value, error=error, **_fields(observed))
            case events.Removed() as removed:
                self._log.warning(
                    "commit removed from the target branch",
                    removal=removed.removal.value,
                    branch=removed.branch,
                    removed_commit=removed.commit,
                    head=removed.head,
                    why=removed.why,
                    **_fields(observed),
                )
            case events.TableChecked() as checked:
                self._log.info(
                    "table checked",
                    table=checked.table,
                    phase=checked.phase.value,
                    rows=checked.rows,
                    rules=checked.rules,
                    bad=checked.bad,
                    check_seconds=round(checked.seconds, 4),
                    unchanged=checked.unchanged,
                    violations=checked.violations,
                    **_fields(observed),
                )
            case events.Revoked(rival, was_live=True):
                self._log.warning("revoked a live rival that started later", rival=rival, **_fields(observed))
            case _:
                pass

    def _reported(self, event: AttemptReported) -> None:
        """Write one line with the outcome of the attempt, followed by its traceback if there is one."""
        outcome, delivery = event.outcome, metrics.delivery_word(event.delivery)
        self.cancelled += event.was_cancelled and outcome.status is not TaskStatus.COMPLETED
        self._metrics.reported(event.attempt.task_type, outcome, event.delivery)
        line = {
            **_fields(event),
            "slot": event.slot,
            "status": outcome.status.value,
            "delivery": delivery,
            **event.about,
            **logs.of_outcome(outcome),
        }
        if not isinstance(event.delivery, reporting.Accepted):
            line["delivery_reason"] = event.delivery.reason
        succeeded = outcome.status is TaskStatus.COMPLETED and delivery == "accepted"
        (self._log.info if succeeded else self._log.warning)("attempt", **line)
        if outcome.log:
            self._log.error("traceback", **_fields(event), text="\n".join(outcome.log))
        self.recent.append({"ended_at": time.time(), **line})

    def _set_conductor(self, *, up: bool) -> bool:
        """Returns whether the state changed."""
        if self.conductor_is_up is up:
            return False
        self.conductor_is_up = up
        self._metrics.conductor(up=up)
        return True

    def _set_lakefs(self, *, up: bool) -> None:
        self.lakefs_is_up = up
        self._metrics.lakefs(up=up)


def _fields(event: OfAttempt) -> dict[str, Any]:
    return logs.of_attempt(event.attempt, event.execution_id)
