"""The Spark session of one attempt, from a driver of this process or a Connect server, and how to stop everything it runs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perago.errors import WorkspaceError
from perago.process.exit_status import ExitStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUIET_SECONDS = 30.0
"""Time for cancelled jobs to end everywhere; an attempt whose writers cannot be stopped publishes nothing."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Sums over the stages that are running now."""

    stages: int
    tasks: int
    tasks_done: int
    rows: int
    bytes: int


class AttemptSession(Protocol):
    """Its temporary views, settings and cached data belong to one attempt and end with it."""

    @property
    def spark(self) -> "SparkSession": ...

    def cancel(self) -> None:
        """Tell all jobs and streaming queries to stop, without waiting. No error if nothing runs or the driver has ended."""
        ...

    def is_quiet(self) -> bool:
        """Whether no task of this session is known to run anywhere."""
        ...

    def progress(self) -> JobProgress | None:
        """None while nothing runs, or if it cannot be known."""
        ...

    def exit_status(self) -> ExitStatus | None:
        """Of the driver; None while it runs, or if that cannot be known."""
        ...

    def close(self) -> None: ...


class SparkEngine(Protocol):
    def start(self) -> None:
        """`SetupError` if Spark cannot be started or reached."""
        ...

    def session(self, settings: Mapping[str, str]) -> AttemptSession: ...

    def close(self) -> None: ...


def explain_error(session: AttemptSession, error: Exception) -> Exception:
    """An error about the driver if it has ended, because the body's error then only mentions sockets and gateways."""
    exit_status = session.exit_status()
    if exit_status is None:
        return error
    return WorkspaceError(
        f"the Spark driver {exit_status} while the body ran; if the machine ran out of memory, "
        "reduce what the body holds at once, lower spark.driver.memory, or run fewer executors (-j)"
    )


def require_quiet(session: AttemptSession) -> None:
    """Cancel what runs; `WorkspaceError` if tasks still run after `QUIET_SECONDS`."""
    if not cancel_and_wait(session):
        raise WorkspaceError(
            f"Spark tasks of the body still run {QUIET_SECONDS:g} s after they were cancelled; nothing is published"
        )


def cancel_and_wait(session: AttemptSession) -> bool:
    """Cancel what runs; False if tasks still run after `QUIET_SECONDS`."""
    session.cancel()
    deadline = time.monotonic() + QUIET_SECONDS
    while not session.is_quiet():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
