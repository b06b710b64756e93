"""A standalone Spark cluster on this machine: one master and two workers from the pyspark package."""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pyspark
from tests.support.waiting import eventually
from tests.support.worker_harness import command

from perago.process.child_process import ChildProcess, Command
from perago.spark.runtime import SparkRuntime

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    def __init__(self, url: str, workers: list[ChildProcess]) -> None:
        self.url = url
        self._workers = workers

    def executors(self) -> list[int]:
        """Processes that run tasks."""
        found = [pid for worker in self._workers for pid in _children(worker.pid)]
        return [pid for pid in found if b"CoarseGrainedExecutorBackend" in command(pid)]

    def kill_one_executor(self) -> int:
        pid = self.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid


@contextlib.contextmanager
def cluster(needed: SparkRuntime, directory: Path) -> Generator[Cluster]:
    with contextlib.ExitStack() as stack:
        master = _start(needed, directory / "master", [_MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        stack.callback(master.kill)
        url = _said(directory / "master.log", r"Starting Spark master at (spark://\S+)")
        workers: list[ChildProcess] = []
        # Spark starts a copy of a task on another host only.
        for name, host in (("one", "127.0.0.1"), ("two", "127.0.0.2")):
            line = [
                _WORKER,
                url,
                "--host",
                host,
                "-c",
                "1",
                "-m",
                "900m",
                "-d",
                str(directory / name),
                "--webui-port",
                "0",
            ]
            worker = _start(needed, directory / name, line)
            stack.callback(worker.kill)
            workers.append(worker)
        for name in ("one", "two"):
            _said(directory / f"{name}.log", r"(Successfully registered with master)")
        made = Cluster(url, workers)
        yield made
        left = made.executors()
    eventually(lambda: not [pid for pid in left if command(pid)], within=30, what="the end of the executors")


def _children(pid: int) -> list[int]:
    """Of all its threads: a JVM starts processes from any of them."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


def _start(needed: SparkRuntime, directory: Path, line: list[str], memory: str = "256m") -> ChildProcess:
    directory.mkdir()
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    env = {**os.environ, "JAVA_HOME": str(needed.java_home), "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": memory}
    env["SPARK_LOCAL_DIRS"] = str(directory)
    return ChildProcess(Command([str(program), *line], directory, directory.with_suffix(".log"), env))


def _said(log: Path, pattern: str) -> str:
    def found() -> str:
        match = re.search(pattern, log.read_text(errors="replace")) if log.exists() else None
        return match[1] if match else ""

    return eventually(found, within=120, what=f"{pattern!r} in {log.name}")


def once(condition: Callable[[], bool], act: Callable[[], object], *, within: float = 120.0) -> None:
    """Call `act` as soon as the condition holds; fail if it does not hold in time."""
    eventually(condition, within=within)
    act()
