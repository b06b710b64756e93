"""Sessions of a Spark Connect server, which has the jars for lakeFS on its own class path."""

import contextlib
import importlib.util
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from perago.errors import RuntimeConfigError
from perago.spark.options import Options
from perago.spark.session import Work

_NEEDED = ("grpc", "grpc_status", "pandas", "pyarrow")


class Remote:
    """Implements `perago.spark.session.Engine`."""

    def __init__(self, chosen: Options) -> None:
        self._options = chosen

    def start(self) -> None:
        """A server that cannot be reached is said before the first attempt."""
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeConfigError(
                f"PERAGO_SPARK_REMOTE needs {', '.join(missing)}; run: pip install 'pyspark[connect]>=4.2,<4.3'"
            )
        self.session({}).close()

    def session(self, settings: Mapping[str, str]) -> "RemoteSession":
        try:
            made = SparkSession.builder.remote(self._options.remote or "").create()
            for key, value in {"spark.sql.session.timeZone": "UTC", **self._options.chosen(), **settings}.items():
                made.conf.set(key, value)
        except PySparkException as error:
            raise RuntimeConfigError(f"PERAGO_SPARK_REMOTE cannot be used: {type(error).__name__}") from error
        return RemoteSession(made)

    def close(self) -> None:
        """Every session was closed by itself."""


class RemoteSession:
    """Implements `perago.spark.session.Session`. What runs on the server is its own affair: it can be told, not watched."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def cancel(self) -> None:
        with contextlib.suppress(PySparkException):
            for query in self._spark.streams.active:
                query.stop()
        with contextlib.suppress(PySparkException):
            self._spark.interruptAll()

    def is_quiet(self) -> bool:
        return True

    def work(self) -> Work | None:
        return None

    def close(self) -> None:
        """The server forgets its views, settings and caches."""
        with contextlib.suppress(PySparkException):
            self._spark.stop()
