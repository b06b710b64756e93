"""Prometheus metrics of a worker, fed by the recorder."""

import platform
import signal
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from perago import distribution
from perago.conductor import reporting
from perago.errors import AttemptError, ConductorError, LakeError, PeragoError, TaskStatus
from perago.events import Done, Event, Phase, Progress, Removal, Removed, Revoked, TableChecked
from perago.model import Outcome
from perago.process.exit_status import ExitStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


_VERDICTS = ("held", "unchanged", "broken")
_DELIVERIES = ("accepted", "superseded", "unknown")
_COMMON_ENDS = (1, -signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGTERM)
NO_CODE = ("none", "other")
"""`code` and `error` of an exception that is not Perago's."""


def delivery_word(delivery: reporting.Delivery) -> str:
    match delivery:
        case reporting.Accepted():
            return "accepted"
        case reporting.Superseded():
            return "superseded"
        case reporting.Unknown():
            return "unknown"


class Metrics:
    """Has a registry of its own: no metrics of other libraries appear, and tests can create several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self._attempts = Counter(
            "perago_attempts",
            "Finished attempts, by reported status and by outcome of the report",
            ["task", "status", "delivery"],
            registry=own,
        )
        self._errors = Counter("perago_attempt_errors", "Attempts that failed, by error", ["task", "code", "error"], registry=own)
        self._phases = Histogram(
            "perago_phase_seconds", "Time per phase of an attempt", ["task", "phase"], buckets=_SECONDS, registry=own
        )
        self._bytes = Counter("perago_bytes", "Bytes transferred or compared, by phase", ["task", "phase"], registry=own)
        self._fence_refusals = Counter(
            "perago_fence_refusals", "Failed fences and requests about other tasks", ["task"], registry=own
        )
        self._revocations = Counter("perago_revocations", "Staging branches of other executions deleted", ["task"], registry=own)
        self._removed = Counter(
            "perago_commits_removed",
            "Commits removed from a target branch, by kind of removal",
            ["task", "kind"],
            registry=own,
        )
        self._table_checks = Counter(
            "perago_table_checks", "Tables whose data checks were evaluated, by result", ["task", "result"], registry=own
        )
        self._rows_checked = Counter("perago_table_rows", "Rows that data checks have read", ["task"], registry=own)
        self._bad_rows = Counter("perago_table_bad_rows", "Rows that break a rule of a data check", ["task"], registry=own)
        self._lateness = Histogram(
            "perago_lease_lateness_seconds", "How late a lease was extended", buckets=_SECONDS, registry=own
        )
        self._cancelled = Counter("perago_attempts_called_off", "Attempts that were cancelled", ["task"], registry=own)
        self._restarts = Counter("perago_executor_restarts", "Executors that died and were restarted", ["cause"], registry=own)
        self._busy = Gauge("perago_busy_slots", "Slots that are running an attempt", registry=own)
        self._slots = Gauge("perago_slots", "Slots of this worker", registry=own)
        self._conductor_up = Gauge("perago_conductor_up", "Whether Conductor responded to the last request", registry=own)
        self._conductor_up.set(1)
        self._lakefs_up = Gauge("perago_lakefs_up", "Whether lakeFS responds; 1 if no task of this worker needs it", registry=own)
        self._lakefs_up.set(1)
        self._build = Gauge("perago_build_info", "Always 1", ["version", "python"], registry=own)
        self._build.labels(distribution.version(), platform.python_version()).set(1)

    def start_at_zero(self, tasks: Sequence[str]) -> None:
        """Create the counters of these tasks: `increase()` of Prometheus does not see the first value of a new one."""
        for task in tasks:
            for status in TaskStatus:
                for delivery in _DELIVERIES:
                    self._attempts.labels(task, status.value, delivery)
            for code, error in (NO_CODE, *_errors_of_attempts()):
                self._errors.labels(task, code, error)
            for removal in Removal:
                self._removed.labels(task, removal.value)
            for phase in (Phase.DOWNLOAD, Phase.DIFF, Phase.STAGE):
                self._bytes.labels(task, phase.value)
            for result in _VERDICTS:
                self._table_checks.labels(task, result)
            for counter in (self._fence_refusals, self._revocations, self._cancelled, self._rows_checked, self._bad_rows):
                counter.labels(task)
        for code in _COMMON_ENDS:
            self._restarts.labels(str(ExitStatus(code)))

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def reported(self, task: str, outcome: Outcome, delivery: reporting.Delivery) -> None:
        self._attempts.labels(task, outcome.status.value, delivery_word(delivery)).inc()
        if outcome.status is not TaskStatus.COMPLETED:
            code, error = (outcome.code, outcome.error or "") if outcome.code else NO_CODE
            self._errors.labels(task, code, error).inc()

    def observe(self, task: str, event: Event) -> None:
        match event:
            case Done():
                self._phases.labels(task, event.phase.value).observe(event.seconds)
                if event.bytes:
                    self._bytes.labels(task, event.phase.value).inc(event.bytes)
                if event.phase is Phase.FENCE and event.error is not None:
                    self._fence_refusals.labels(task).inc()
            case Revoked():
                self._revocations.labels(task).inc()
            case Removed():
                self._removed.labels(task, event.removal.value).inc()
            case TableChecked():
                self._table_checks.labels(task, _verdict(event)).inc()
                self._rows_checked.labels(task).inc(0 if event.unchanged else event.rows or 0)
                self._bad_rows.labels(task).inc(sum(event.bad.values()))
            case Progress():
                pass

    def lease_extended(self, lateness: float) -> None:
        self._lateness.observe(lateness)

    def cancelled(self, task: str) -> None:
        self._cancelled.labels(task).inc()

    def restarted(self, exit_status: ExitStatus) -> None:
        self._restarts.labels(str(exit_status)).inc()

    def slots(self, busy: int, total: int) -> None:
        self._busy.set(busy)
        self._slots.set(total)

    def conductor(self, *, up: bool) -> None:
        self._conductor_up.set(1 if up else 0)

    def lakefs(self, *, up: bool) -> None:
        self._lakefs_up.set(1 if up else 0)


def _verdict(event: TableChecked) -> str:
    if event.violations:
        return "broken"
    return "unchanged" if event.unchanged else "held"


def _errors_of_attempts() -> list[tuple[str, str]]:
    """Code and class of every error that may end an attempt."""
    kinds = {kind for base in (AttemptError, LakeError, ConductorError) for kind in _tree(base)}
    return sorted((kind.code, kind.__name__) for kind in kinds if kind.code)


def _tree(kind: type[PeragoError]) -> Iterator[type[PeragoError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)
