"""The workers of the demos: `perago start` in child processes that can be killed and started again."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perago import settings
from perago.errors import SetupError
from perago.model import WorkflowId
from perago.process import child_process
from perago.supervisor import status as worker_status

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """What one executor of a worker does."""

    executor: int
    """Its process id."""
    workflow: WorkflowId
    step: str
    phase: str


class DemoWorker:
    """One `perago start`. Workers of one directory share its logs and its cache, as workers of one machine do."""

    def __init__(self, name: str, directory: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
        """`environment` has the addresses of the servers; `arguments` are those of `perago start`."""
        self.name = name
        self._directory = directory
        self._arguments = arguments
        self._environment = {**_inherited(), **environment, "PYTHONPATH": str(examples())}
        self._environment |= {f"PERAGO_{root}_ROOT": str(directory / root.lower()) for root in ("WORKSPACE", "LOG", "CACHE")}
        self._child: child_process.ChildProcess | None = None

    def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        line = [sys.executable, "-c", "from perago.cli.main import main; main()", "start", *self._arguments]
        self._child = child_process.ChildProcess(
            child_process.Command(line, self._directory, self._log, self._environment, _GRACE_SECONDS)
        )

    def require_started(self, wait: Callable[[float], None]) -> None:
        """Wait until the tasks are registered and Spark, if they need it, runs; `SetupError` if the worker ends."""
        while not self._state():
            self.check()
            wait(_POLL_SECONDS)

    def running(self) -> list[RunningAttempt]:
        """The attempts that the worker runs, as it writes them down once a second."""
        return [
            RunningAttempt(
                int(slot["pid"]),
                WorkflowId(attempt["workflow_id"]),
                str(attempt["step"]),
                f"{attempt['phase']} {attempt['progress']}".rstrip(),
            )
            for shown in self._state()
            for slot in shown.state.get("slots", ())
            if (attempt := slot.get("attempt")) and slot.get("pid")
        ]

    def check(self) -> None:
        """`SetupError` if the worker has ended by itself."""
        if self._child is not None and (code := self._child.exit_code()) is not None:
            raise SetupError(f"the worker ended with exit code {code}:\n{child_process.tail(self._log)}")

    def kill(self) -> None:
        """Kill it with all its executors, as a crash of its machine would."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _state(self) -> Sequence[worker_status.WorkerState]:
        own = None if self._child is None else self._child.pid
        return [state for state in worker_status.running_workers(log_root(self._directory)) if state.pid == own]

    @property
    def _log(self) -> Path:
        return self._directory / f"{self.name}.log"


def log_root(directory: Path) -> Path:
    """The directory of the logs of the workers of one directory."""
    return directory / "log"


def kill_executor(attempt: RunningAttempt) -> bool:
    """Kill the process that runs an attempt; false if it has ended meanwhile."""
    try:
        os.kill(attempt.executor, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def stopped_at_the_end(workers: Sequence[DemoWorker]) -> Generator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()


def _inherited() -> Mapping[str, str]:
    """The environment without the settings of the user's own project, except those of downloads and of Spark."""
    own = ("PERAGO_", "LAKECTL_", "CONDUCTOR_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own) or name.startswith("PERAGO_SPARK_")}
    # Passed on explicitly: the worker runs in another directory and does not see the user's `.env`.
    downloads = settings.load_downloads()
    kept["PERAGO_CACHE_DIR"] = str(downloads.perago_cache_dir)
    if downloads.perago_maven_repository is not None:
        kept["PERAGO_MAVEN_REPOSITORY"] = downloads.perago_maven_repository
    return kept


def examples() -> Path:
    """The directory that contains `examples`: beside this package in a wheel, above it in a clone."""
    here = Path(__file__).parents[1]
    for root in (here / "demo", here.parents[1]):
        if (root / "examples" / "shop").is_dir():
            return root
    raise SetupError("the example pipelines are not installed; run the demo from a clone of the repository")
