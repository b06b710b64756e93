"""A Spark task's workspace as checks see it: in a session of its own, which has nothing that the body has set or cached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perago import events
from perago.data_checks.port import Tables
from perago.model import FilePath
from perago.spark import body_workspace, job_monitor, session
from perago.spark.tables import SETTINGS, SparkTables


@dataclass(slots=True)
class SparkInspection:
    """Implements `perago.attempt.port.Inspection`. The session is opened at the first use."""

    engine: session.SparkEngine
    settings: Mapping[str, str]
    storage: body_workspace.WorkspaceStorage
    base: str
    """The URI of the workspace as it would be published, with a trailing `/`."""
    files: Callable[[], Mapping[FilePath, int]]
    is_unchanged: Callable[[str], bool]
    is_cancelled: Callable[[], bool]
    emit: events.Emit
    _session: session.AttemptSession | None = field(default=None, init=False)
    _monitor: job_monitor.JobMonitor | None = field(default=None, init=False)
    _tables: SparkTables | None = field(default=None, init=False)

    def argument(self) -> body_workspace.BodyWorkspace:
        return body_workspace.BodyWorkspace(self._opened().spark, self.storage)

    def tables(self) -> Tables:
        if self._tables is None:
            self._tables = SparkTables(self._opened, self.base, self.files(), self.is_unchanged)
        return self._tables

    def close(self) -> None:
        """`WorkspaceError` if jobs of a check cannot be stopped."""
        made, self._session = self._session, None
        if self._monitor is not None:
            self._monitor.stop()
        if made is not None:
            try:
                session.require_quiet(made)
            finally:
                made.close()

    def _opened(self) -> session.AttemptSession:
        if self._session is None:
            self._session = self.engine.session({**self.settings, **SETTINGS})
            self._monitor = job_monitor.JobMonitor(self._session, self.is_cancelled, self.emit)
        return self._session
