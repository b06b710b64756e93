"""The session of one attempt in a driver on this machine, without anything that an earlier body left in the driver."""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from perago.process.exit_status import ExitStatus
from perago.spark.session import JobProgress

DRIVER_GONE = (Py4JError, PySparkException, OSError, EOFError)
"""Errors of a call into a driver that has ended or was stopped."""


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """How to kill the driver and to get its exit status. Both do nothing for a driver that Perago did not start."""

    kill: Callable[[], object]
    exit_status: Callable[[], ExitStatus | None]


class ClassicSession:
    """Implements `perago.spark.session.AttemptSession`. One at a time: the driver runs a single attempt."""

    def __init__(self, base: SparkSession, settings: Mapping[str, str], driver: DriverProcess) -> None:
        self._base = base
        self._driver = driver
        self._spark = base.newSession()
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        _make_current(self._spark)

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def cancel(self) -> None:
        if not self._answers_in_order():
            self._driver.kill()
            return
        with contextlib.suppress(*DRIVER_GONE):
            for query in self._spark.streams.active:
                query.stop()
        with contextlib.suppress(*DRIVER_GONE):
            self._context.cancelAllJobs()

    def is_quiet(self) -> bool:
        """True for a driver that has ended, because it accepts no more results of tasks."""
        try:
            tracker = self._context.statusTracker()
            return not tracker.getActiveJobIds() and not any(_running(tracker))
        except DRIVER_GONE:
            return True

    def exit_status(self) -> ExitStatus | None:
        return None if self._answers_in_order() else self._driver.exit_status()

    def progress(self) -> JobProgress | None:
        try:
            stages = list(_stages(self._context))
        except DRIVER_GONE:
            return None
        if not stages:
            return None
        return JobProgress(
            len(stages),
            sum(stage.numTasks() for stage in stages),
            sum(stage.numCompleteTasks() for stage in stages),
            sum(stage.outputRecords() for stage in stages),
            sum(stage.outputBytes() for stage in stages),
        )

    def close(self) -> None:
        with contextlib.suppress(*DRIVER_GONE):
            _make_current(self._base)
            self._spark.catalog.clearCache()
            for cached in list(self._java.getPersistentRDDs().values()):
                cached.unpersist(False)
            self._drop_tables()
            self._shared.globalTempViewManager().clear()
            # Otherwise the body's job group and scheduler pool would stay set in this thread.
            self._context.setLocalProperties(self._jvm.java.util.Properties())

    def _answers_in_order(self) -> bool:
        """Whether the driver's reply belongs to the request: an interrupted body may leave an unread reply behind."""
        token = secrets.randbelow(1 << 30)
        try:
            return self._jvm.java.lang.Integer.parseInt(str(token)) == token
        except Exception:  # noqa: BLE001  the reply to another request can fail in any way
            return False

    def _drop_tables(self) -> None:
        """Drop the tables of an in-memory catalog. A catalog outside the driver, such as Hive's, is left alone."""
        if self._spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory":
            return
        catalog = self._shared.externalCatalog()
        for database in _items(catalog.listDatabases("*")):
            for table in _items(catalog.listTables(database)):
                catalog.dropTable(database, table, True, False)
            if database != "default":
                catalog.dropDatabase(database, True, True)

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    @property
    def _java(self) -> Any:
        context: Any = self._spark.sparkContext
        return context._jsc  # noqa: SLF001

    @property
    def _context(self) -> Any:
        """The Scala SparkContext in the driver."""
        if self._java is None:
            raise EOFError("the body stopped Spark")
        return self._java.sc()

    @property
    def _shared(self) -> Any:
        session: Any = self._spark
        return session._jsparkSession.sharedState()  # noqa: SLF001


def _make_current(session: SparkSession) -> None:
    """Make it the session that `SparkSession.active()` and `builder.getOrCreate()` return."""
    current: Any = session
    session_class: Any = SparkSession
    java_class = session_class._get_j_spark_session_class(current._jvm)  # noqa: SLF001
    java_class.setDefaultSession(current._jsparkSession)  # noqa: SLF001
    java_class.setActiveSession(current._jsparkSession)  # noqa: SLF001
    # Last, so that the session of a driver that has ended is not set.
    session_class._instantiatedSession = session_class._activeSession = session  # noqa: SLF001


def _running(tracker: Any) -> Iterator[int]:
    return (executor.numRunningTasks() for executor in tracker.getExecutorInfos())


def _stages(context: Any) -> Iterator[Any]:
    store = context.statusStore()
    for number in context.statusTracker().getActiveStageIds():
        with contextlib.suppress(Py4JError):  # the stage has just ended
            yield store.lastStageAttempt(number)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
