"""Choose the Spark engine by the options: a driver on this machine or a Connect server, created when it is needed."""

from collections.abc import Mapping

from perago.provision.progress import Report, quiet
from perago.spark import options, runtime
from perago.spark.session import AttemptSession, SparkEngine


class LazyEngine:
    """Implements `perago.spark.session.SparkEngine`; a worker without Spark tasks never imports pyspark."""

    def __init__(self, chosen: options.SparkOptions, report: Report) -> None:
        self._options = chosen
        self._report = report
        self._made: SparkEngine | None = None

    def start(self) -> None:
        self._engine().start()

    def session(self, settings: Mapping[str, str]) -> AttemptSession:
        return self._engine().session(settings)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None

    def _engine(self) -> SparkEngine:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> SparkEngine:
        if self._options.remote is not None:
            from perago.spark import connect  # noqa: PLC0415  see the docstring of the class

            return connect.ConnectEngine(self._options)
        from perago.spark import driver  # noqa: PLC0415  as above

        return driver.Driver(self._options, lambda: runtime.ensure(self._report))


def make(chosen: options.SparkOptions, report: Report = quiet) -> SparkEngine:
    return LazyEngine(chosen, report)
