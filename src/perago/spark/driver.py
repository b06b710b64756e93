"""A Spark driver on this machine, started once and kept warm: options come in, one isolated session per attempt leaves."""

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
from perago.spark import driver_directory, options, runtime
from perago.spark.classic import GONE, ClassicSession, DriverProcess

_LOG4J = Path(__file__).with_name("log4j2.properties")
_END_SECONDS = 10.0
_DYING_SECONDS = 1.0
"""From the loss of its sockets to its exit code."""


class Driver:
    """Not started before the first attempt needs it, and started anew if a body stopped it or it died."""

    def __init__(self, chosen: options.SparkOptions, provide: Callable[[], runtime.SparkRuntime]) -> None:
        self._options = chosen
        self._provide = provide
        self._home: driver_directory.DriverDirectory | None = None
        self._session: SparkSession | None = None
        self._is_ours = False

    def start(self) -> None:
        if self._session is not None and _is_alive(self._session):
            return
        if self._is_ours and not _is_stopped(self._session):
            _end()
            self._leave_home()
        self._session = None
        self._session = _somebody_elses() or self._launch()

    def session(self, settings: Mapping[str, str]) -> ClassicSession:
        self.start()
        assert self._session is not None  # noqa: S101  start has just made it
        return ClassicSession(self._session, settings, _OURS if self._is_ours else _SOMEBODY_ELSES)

    def close(self) -> None:
        self._session = None
        if self._is_ours:
            _end()
            self._is_ours = False
        self._leave_home()

    def _leave_home(self) -> None:
        """With everything that a driver which was killed could not remove itself."""
        if self._home is not None:
            self._home.close()
            self._home = None

    def _launch(self) -> SparkSession:
        self._home = self._home or driver_directory.create(self._options.scratch)
        needed = self._provide()
        properties = start_properties(self._options.chosen(), needed, self._home.path)
        file = self._home.path / "spark.properties"
        file.touch(mode=0o600)
        file.write_text(options.render(properties))
        self._is_ours = True
        try:
            with _environment(start_environment(needed, file, properties)), _own_interrupts():
                return SparkSession.builder.getOrCreate()
        except GONE as error:
            _end()
            raise RuntimeConfigError(f"Spark does not start with master {properties['spark.master']}: {_line(error)}") from error


def start_properties(chosen: Mapping[str, str], needed: runtime.SparkRuntime, directory: Path) -> dict[str, str]:
    """Perago's own below what was chosen. No credential is among them."""
    jars = ",".join(jar.as_uri() for jar in needed.jars)
    common = {
        "spark.master": options.LOCAL,
        "spark.app.name": "perago",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        # Not the extra ones, which are left to whoever runs this.
        "spark.driver.defaultJavaOptions": f'-Dlog4j2.configurationFile={_LOG4J.as_uri()} -Djava.io.tmpdir="{directory}"',
        "spark.hadoop.hadoop.tmp.dir": "/tmp/perago-hadoop-${user.name}",  # noqa: S108  on executors, which may be elsewhere
        "spark.jars": ",".join(filter(None, [jars, chosen.get("spark.jars")])),
    }
    if not options.is_local(chosen):
        return {**common, **chosen, "spark.jars": common["spark.jars"]}
    here = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, needed.jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.hadoop.hadoop.tmp.dir": str(directory / "hadoop"),
        # Already on the class path: nothing is copied.
        "spark.jars": "",
    }
    return {**common, **here, **chosen}


def start_environment(needed: runtime.SparkRuntime, file: Path, properties: Mapping[str, str]) -> dict[str, str]:
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    common = {"JAVA_HOME": str(needed.java_home), "PYSPARK_SUBMIT_ARGS": f"--properties-file '{file}' {arguments}"}
    if not options.is_local(properties):
        return common
    return {**common, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(file.parent)}


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
def _own_interrupts() -> Generator[None]:
    """Pyspark takes SIGINT for itself; whoever runs us decided about it already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _somebody_elses() -> SparkSession | None:
    """A process has one driver: where a person's own tests have started it, it serves us too, and they end it."""
    context: Any = SparkContext
    if context._active_spark_context is None:  # noqa: SLF001
        return None
    found = SparkSession.builder.getOrCreate()
    return found if _is_alive(found) else None


def _is_stopped(session: SparkSession | None) -> bool:
    """By a body, in good order: its process can serve on."""
    context: Any = None if session is None else session.sparkContext
    return context is not None and context._jsc is None  # noqa: SLF001


def _is_alive(session: SparkSession) -> bool:
    if _is_stopped(session):
        return False
    context: Any = session.sparkContext
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001
    except GONE:
        return False


def _end() -> None:
    """End the driver of this process, whatever state it is in, and make pyspark forget it."""
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001
    if gateway is None:
        return
    with contextlib.suppress(*GONE):
        if context._active_spark_context is not None:  # noqa: SLF001
            context._active_spark_context.stop()  # noqa: SLF001
    _forget(gateway)


def _kill() -> None:
    """End a driver that gives answers to other questions: nothing more is asked of it."""
    context: Any = SparkContext
    if context._gateway is not None:  # noqa: SLF001
        context._gateway.proc.kill()  # noqa: SLF001
        _forget(context._gateway)  # noqa: SLF001


def _death() -> ExitStatus | None:
    context: Any = SparkContext
    if context._gateway is None:  # noqa: SLF001
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return ExitStatus(context._gateway.proc.wait(_DYING_SECONDS))  # noqa: SLF001
    return None


_OURS = DriverProcess(_kill, _death)
_SOMEBODY_ELSES = DriverProcess(lambda: None, lambda: None)


def _forget(gateway: Any) -> None:
    context: Any = SparkContext
    with contextlib.suppress(*GONE):
        gateway.shutdown()
    _end_process(gateway.proc)
    context._gateway = context._jvm = context._active_spark_context = None  # noqa: SLF001
    sessions: Any = SparkSession
    sessions._instantiatedSession = sessions._activeSession = None  # noqa: SLF001


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    """A driver ends when its standard input does."""
    with contextlib.suppress(OSError):
        process.stdin.close() if process.stdin is not None else None
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
