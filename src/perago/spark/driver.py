"""A Spark driver on this machine: started for the first attempt, kept running, one isolated session per attempt."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from perago.errors import RuntimeConfigError
from perago.process.exit_status import ExitStatus
from perago.spark import driver_directory, options, runtime, s3a, warm_up
from perago.spark.classic import DRIVER_GONE, ClassicSession, DriverProcess

_LOG4J = Path(__file__).with_name("log4j2.properties")
_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the virtual machine that only computes the command of the driver, which takes half of the time then."""
_END_SECONDS = 10.0
_DYING_SECONDS = 1.0
"""Time between the end of the driver's sockets and its exit status."""


class Driver:
    """Started when the first attempt needs it, and started again if a body stopped it or it died."""

    def __init__(self, chosen: options.SparkOptions, provide: Callable[[], runtime.SparkRuntime]) -> None:
        self._options = chosen
        self._provide = provide
        self._directory: driver_directory.DriverDirectory | None = None
        self._session: SparkSession | None = None
        self._owns_driver = False

    def start(self) -> None:
        if self._session is not None and _is_alive(self._session):
            return
        if self._owns_driver and not _is_stopped(self._session):
            _stop_driver()
            self._remove_directory()
        self._session = None
        self._session = _existing_session() or self._launch()

    def session(self, settings: Mapping[str, str]) -> ClassicSession:
        self.start()
        assert self._session is not None  # noqa: S101  start has just made it
        return ClassicSession(self._session, settings, _OWN_DRIVER if self._owns_driver else _FOREIGN_DRIVER)

    def close(self, seconds: float = _END_SECONDS) -> None:
        """Stop the driver, and kill it if it has not ended after this time."""
        self._session = None
        if self._owns_driver:
            _stop_driver(seconds)
            self._owns_driver = False
        self._remove_directory()

    def _remove_directory(self) -> None:
        """Including files that a killed driver could not remove itself."""
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def _launch(self) -> SparkSession:
        self._directory = self._directory or driver_directory.create(self._options.scratch)
        needed = self._provide()
        properties = start_properties(self._options.chosen(), needed, self._directory.path)
        file = self._directory.path / "spark.properties"
        file.touch(mode=0o600)
        file.write_text(options.render(properties))
        self._owns_driver = True
        try:
            with _environment(start_environment(needed, file, properties)), _keep_sigint_handler():
                return _start()
        except DRIVER_GONE as error:
            _stop_driver()
            raise RuntimeConfigError(f"Spark does not start with master {properties['spark.master']}: {_line(error)}") from error


def start_properties(chosen: Mapping[str, str], needed: runtime.SparkRuntime, directory: Path) -> dict[str, str]:
    """Perago's defaults, overridden by `chosen`. They contain no credentials."""
    jars = ",".join(jar.as_uri() for jar in needed.jars)
    common = {
        "spark.master": options.LOCAL,
        "spark.app.name": "perago",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.driver.defaultJavaOptions": _java_options(directory),
        "spark.hadoop.hadoop.tmp.dir": "/tmp/perago-hadoop-${user.name}",  # noqa: S108  on executors, which may be elsewhere
        "spark.jars": ",".join(filter(None, [jars, chosen.get("spark.jars")])),
        **{f"spark.hadoop.{key}": value for key, value in s3a.SIZED_STREAMS.items()},
    }
    if not options.is_local(chosen):
        return {**common, **chosen, "spark.jars": common["spark.jars"]}
    here = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, needed.jars)),
        "spark.driver.defaultJavaOptions": _java_options(directory, *needed.java_options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.hadoop.hadoop.tmp.dir": str(directory / "hadoop"),
        # The jars are on the class path already; listing them here would copy them.
        "spark.jars": "",
    }
    return {**common, **here, **chosen}


def _java_options(directory: Path, *more: str) -> str:
    """For `defaultJavaOptions`, because `extraJavaOptions` are reserved for operators."""
    ours = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", f"-Djava.io.tmpdir={directory}", *more]
    return " ".join(f'"{option}"' for option in ours)


def start_environment(needed: runtime.SparkRuntime, file: Path, properties: Mapping[str, str]) -> dict[str, str]:
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    common = {"JAVA_HOME": str(needed.java_home), "PYSPARK_SUBMIT_ARGS": f"--properties-file '{file}' {arguments}"}
    if not options.is_local(properties):
        return common
    here = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(file.parent)}
    # Spark's scripts would otherwise start a Python to look for it.
    start = {"SPARK_HOME": str(needed.spark_home), "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", _LAUNCHER)}
    return {**common, **here, **start}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _keep_sigint_handler() -> Generator[None]:
    """Restore the SIGINT handler of this process, which pyspark replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start() -> SparkSession:
    context: Any = SparkContext
    context._ensure_initialized()  # noqa: SLF001  starts the virtual machine
    with warm_up.beside(context._jvm):  # noqa: SLF001
        return SparkSession.builder.getOrCreate()


def _existing_session() -> SparkSession | None:
    """The driver that other code in this process started, for example a user's tests. It is used and not stopped."""
    context: Any = SparkContext
    if context._active_spark_context is None:  # noqa: SLF001
        return None
    found = SparkSession.builder.getOrCreate()
    return found if _is_alive(found) else None


def _is_stopped(session: SparkSession | None) -> bool:
    """Whether a body stopped it regularly; its process can be used again."""
    context: Any = None if session is None else session.sparkContext
    return context is not None and context._jsc is None  # noqa: SLF001


def _is_alive(session: SparkSession) -> bool:
    if _is_stopped(session):
        return False
    context: Any = session.sparkContext
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001
    except DRIVER_GONE:
        return False


def _stop_driver(seconds: float = _END_SECONDS) -> None:
    """End the driver of this process, in whatever state it is, and reset pyspark."""
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001
    if gateway is None:
        return
    with contextlib.suppress(*DRIVER_GONE):
        if context._active_spark_context is not None:  # noqa: SLF001
            context._active_spark_context.stop()  # noqa: SLF001
    _reset_pyspark(gateway, seconds)


def _kill_driver() -> None:
    """Kill a driver whose replies are out of order, without another call."""
    context: Any = SparkContext
    if context._gateway is not None:  # noqa: SLF001
        context._gateway.proc.kill()  # noqa: SLF001
        _reset_pyspark(context._gateway)  # noqa: SLF001


def _exit_status() -> ExitStatus | None:
    context: Any = SparkContext
    if context._gateway is None:  # noqa: SLF001
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return ExitStatus(context._gateway.proc.wait(_DYING_SECONDS))  # noqa: SLF001
    return None


_OWN_DRIVER = DriverProcess(_kill_driver, _exit_status)
_FOREIGN_DRIVER = DriverProcess(lambda: None, lambda: None)


def _reset_pyspark(gateway: Any, seconds: float = _END_SECONDS) -> None:
    context: Any = SparkContext
    with contextlib.suppress(*DRIVER_GONE):
        gateway.shutdown()
    _end_process(gateway.proc, seconds)
    context._gateway = context._jvm = context._active_spark_context = None  # noqa: SLF001
    sessions: Any = SparkSession
    sessions._instantiatedSession = sessions._activeSession = None  # noqa: SLF001


def _end_process(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """A driver ends when its standard input is closed; otherwise kill it."""
    with contextlib.suppress(OSError):
        process.stdin.close() if process.stdin is not None else None
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
