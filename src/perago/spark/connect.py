"""Sessions of a Spark Connect server, one per attempt. The server must have the jars for lakeFS."""

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from perago.declare import spark_workspace
from perago.errors import RuntimeConfigError
from perago.spark import runtime, s3a
from perago.spark.options import SparkOptions
from perago.spark.session import JobProgress

_NEEDED = ("grpc", "grpc_status", "pandas", "pyarrow", "zstandard")
_CLASSES = ("org.apache.hadoop.fs.s3a.S3AFileSystem", "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol")
_OURS = {"spark.sql.session.timeZone": "UTC", "spark.connect.progress.reportInterval": "1s", **s3a.RANGES}
_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""Set by pyspark for the whole process and never unset; while it is set, its functions create Connect expressions."""
_NO_SUCH_CLASS = "UNEXPECTED_CLASS_TYPE"
_BODY_RETRIES, _CONTROL_RETRIES = 6, 2
"""Half a minute for a server that does not answer (pyspark's default is ten minutes), and a quarter of a second."""
_RUNNING = {"OPERATION_STATE_RUNNING", "OPERATION_STATE_TERMINATING", "OPERATION_STATE_UNKNOWN"}


class ConnectEngine:
    """Implements `perago.spark.session.SparkEngine`."""

    def __init__(self, chosen: SparkOptions) -> None:
        self._options = chosen

    def start(self) -> None:
        """Check before the first attempt that the server can be reached and has the classes for lakeFS."""
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            command = spark_workspace.install_command(spark_workspace.CONNECT_PACKAGES)
            raise RuntimeConfigError(f"PERAGO_SPARK_REMOTE needs {', '.join(missing)}; run: {command}")
        session = self.session({})
        try:
            session.require_usable()
        finally:
            session.close()

    def session(self, settings: Mapping[str, str]) -> "ConnectSession":
        # An exception reports it as well.
        warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        try:
            made = ConnectSession(SparkSession.builder.remote(self._options.remote or "").create())
        except PySparkException as error:
            # The message of `error` may contain the token.
            raise RuntimeConfigError(
                "PERAGO_SPARK_REMOTE is not the address of a Spark Connect server; write sc://HOST:PORT"
            ) from error
        try:
            made.configure(_OURS)
            made.choose(self._options.chosen())
            made.configure(settings)
        except BaseException:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Sessions are closed separately; this ends pyspark's Connect mode."""
        os.environ.pop(_MODE, None)


class ConnectSession:
    """Implements `perago.spark.session.AttemptSession`. Does not affect other sessions on the same server."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stages: dict[str, list[Any]] = {}
        self._client.set_retry_policies([_retry_policy(_BODY_RETRIES)])
        self._client.register_progress_handler(self._on_progress)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Settings that every server accepts; a failure means that the server cannot be used."""
        try:
            for key, value in settings.items():
                self._spark.conf.set(key, value)
        except PySparkException as error:
            raise RuntimeConfigError(f"the server of PERAGO_SPARK_REMOTE cannot be used: {_line(error)}") from error

    def choose(self, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            try:
                self._spark.conf.set(key, value)
            except PySparkException as error:
                raise RuntimeConfigError(
                    f"a session of a Spark Connect server cannot set {key}; set it when the server is started, "
                    "and remove it from PERAGO_SPARK_CONF_FILE"
                ) from error

    def require_usable(self) -> None:
        lacking = [name for name in _CLASSES if not self._has(name)]
        if lacking:
            raise RuntimeConfigError(
                f"the server of PERAGO_SPARK_REMOTE lacks {lacking[0]}; start it with --packages {runtime.packages()}"
            )
        try:
            self._running()
        except PySparkException as error:
            raise RuntimeConfigError(
                f"the server of PERAGO_SPARK_REMOTE runs Spark {self._spark.version}, which cannot report running operations; "
                "start a server with Spark 4.2"
            ) from error

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def cancel(self) -> None:
        # From now on a request fails quickly; the callers repeat what they need.
        self._client.set_retry_policies([_retry_policy(_CONTROL_RETRIES)])
        with contextlib.suppress(PySparkException):
            for query in self._spark.streams.active:
                query.stop()
        with contextlib.suppress(PySparkException):
            self._spark.interruptAll()

    def is_quiet(self) -> bool:
        """False if the server does not answer, because it may still run everything. True once the session is closed."""
        if self._client.is_closed:
            return True
        try:
            return not self._running() and not self._spark.streams.active
        except PySparkException:
            return False

    def exit_status(self) -> None:
        """Unknown: a server that does not answer may only be unreachable. The body's error is kept."""

    def progress(self) -> JobProgress | None:
        """Connect reports tasks, but not what they have written."""
        stages = [stage for stages in list(self._stages.values()) for stage in stages if not stage.done]
        if not stages:
            return None
        tasks, done = sum(stage.num_tasks for stage in stages), sum(stage.num_completed_tasks for stage in stages)
        return JobProgress(len(stages), tasks, done, rows=0, bytes=0)

    def close(self) -> None:
        """The server removes the session's views and settings, but not cached data, global views and tables."""
        with contextlib.suppress(PySparkException):
            self._spark.stop()

    def _on_progress(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        """Called by pyspark, with these argument names, in the thread that waits for the operation."""
        del inflight_tasks
        if done:
            self._stages.pop(str(operation_id), None)
        else:
            self._stages[str(operation_id)] = list(stages or ())

    def _running(self) -> list[str]:
        found = self._client._get_operation_statuses().operation_statuses  # noqa: SLF001
        return [one.operation_id for one in found if one.OperationState.Name(one.state) in _RUNNING]

    def _has(self, name: str) -> bool:
        """Calls a method that no class has: the error shows whether the class or only the method is missing."""
        session: Any = self._spark
        try:
            with _unlogged():
                _ = session.sql(f"select reflect('{name}', 'perago')").schema
        except PySparkException as error:
            return _NO_SUCH_CLASS not in str(error.getCondition())
        return True

    @property
    def _client(self) -> Any:
        session: Any = self._spark
        return session.client


def _retry_policy(retries: int) -> Any:
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415  needs packages that `start` looks for first

    return DefaultPolicy(max_retries=retries, initial_backoff=50, backoff_multiplier=4.0, max_backoff=10_000, jitter=0)


@contextlib.contextmanager
def _unlogged() -> Generator[None]:
    """Suppress pyspark's log of the error, which contains the server's stack trace."""
    # By pyspark's own function: a plain logger of this name would not take the arguments with which pyspark logs later.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _line(error: PySparkException) -> str:
    return " ".join(str(error).partition("JVM stacktrace:")[0].split())[:300]
