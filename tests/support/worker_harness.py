"""Real workers on real servers: started with `perago start`, observed from outside, and cleaned up at the end."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.conductor_sites import RealConductorSite
from tests.support.lake_sites import RealSite
from tests.support.waiting import eventually

from perago.dev.stack import Endpoints
from perago.model import BranchName, Commit, CommitId, WorkflowId

ROOT = Path(__file__).parents[2]
PLAIN = "tests.support.tasks.plain"
GROW = "tests.support.tasks.grow"
LOOK = "tests.support.tasks.look"
MAIN = BranchName("main")


@dataclass
class Worker:
    """One `perago start` process and its output."""

    process: "subprocess.Popen[bytes]"
    output: Path
    harness: "WorkerHarness"
    seen: set[int] = field(default_factory=set[int])

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[dict[str, Any]]:
        """The log lines so far; one that is not JSON is under `raw`."""
        return [_parsed(line) for line in self.output.read_text(errors="replace").splitlines()]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("event") == event]

    def fetch(self, path: str) -> tuple[int, str]:
        """Status and text from its port for metrics and health."""
        port = self.said("serving metrics and health checks")[0]["port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def executors(self) -> list[int]:
        """Living processes that run attempts, each below its guardian, which is the supervisor's child."""
        guardians = children(self.pid)
        found = [pid for guardian in guardians for pid in children(guardian) if b"perago.executor.main" in command(pid)]
        self.seen.update(found, guardians, *map(children, found))
        return found

    def until(self, event: str, *, count: int = 1, within: float = 30.0) -> dict[str, Any]:
        def enough() -> list[dict[str, Any]]:
            assert self.process.poll() is None or len(self.said(event)) >= count, f"it ended: {self.output.read_text()}"
            return self.said(event) if len(self.said(event)) >= count else []

        return eventually(enough, within=within, what=f"log line {event!r}")[-1]

    def signal(self, number: signal.Signals) -> None:
        self.executors()
        self.process.send_signal(number)

    def stop(self, *, within: float = 20.0) -> int:
        """SIGTERM, then its exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(within)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait(10)

    def survivors(self) -> list[int]:
        """Processes of this worker that still exist."""
        return [pid for pid in self.seen if alive(pid)]


@dataclass
class WorkerHarness:
    """Task types, a repository and directories that only one test uses, and the workers that it starts."""

    stack: Endpoints
    folder: Path
    real: RealConductorSite
    prefix: str = field(default_factory=lambda: f"e2e_{uuid.uuid4().hex[:10]}")
    workers: list[Worker] = field(default_factory=list[Worker])
    site_made: RealSite | None = None

    @property
    def site(self) -> RealSite:
        if self.site_made is None:
            self.site_made = RealSite(self.stack, f"e2e-{uuid.uuid4().hex[:12]}")
        return self.site_made

    @property
    def workspaces(self) -> Path:
        return self.folder / "workspaces"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def environment(self, **changes: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PERAGO_", "LAKECTL_", "CONDUCTOR_"))},
            **self.stack.environment(),
            "PERAGO_WORKSPACE_ROOT": str(self.workspaces),
            "PERAGO_LOG_ROOT": str(self.logs),
            "PERAGO_CACHE_ROOT": str(self.folder / "cache"),
            "PYTHONPATH": str(ROOT),
            "E2E_PREFIX": self.prefix,
            # Conductor hands them out to any worker, also to one that another test is about to kill.
            "PERAGO_SERVE_BUILT_IN_TASKS": "false",
            **changes,
        }

    def launch(self, *modules: str, jobs: int = 1, options: Sequence[str] = ("--register",), **environ: str) -> Worker:
        """Start `perago start` and return at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        output = self.folder / f"worker-{len(self.workers)}.out"
        program = [sys.executable, "-c", "from perago.cli.main import main; main()"]
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [*program, "start", *modules, "-j", str(jobs), *options],
                cwd=self.folder,
                env=self.environment(**environ),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        worker = Worker(process, output, self)
        self.workers.append(worker)
        return worker

    def start(self, *modules: str, jobs: int = 1, options: Sequence[str] = ("--register",), **environ: str) -> Worker:
        """Start a worker and wait until its executors run."""
        worker = self.launch(*modules, jobs=jobs, options=options, **environ)
        worker.until("worker started", within=60)
        eventually(lambda: len(worker.executors()) == jobs, what="executors")
        return worker

    # workflows

    def step(self, module: str, reference: str, params: Mapping[str, Any], workspace: Any = None) -> dict[str, Any]:
        given: dict[str, Any] = {"params": params}
        if workspace is not None:
            given["workspace"] = workspace
        name = f"{self.prefix}.{module.rpartition('.')[2]}"
        return {"name": name, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": given}

    def plain(self, **params: Any) -> WorkflowId:
        return self.real.start_workflow([self.step(PLAIN, "it", params)])

    def grow(self, base: CommitId, **params: Any) -> WorkflowId:
        return self.real.start_workflow([self.step(GROW, "it", params, self.workspace(base))])

    def workspace(self, base: CommitId) -> dict[str, str]:
        return {"repository": self.site.repository, "branch": MAIN, "ref_type": "commit", "ref": base}

    def tasks(self, workflow_id: WorkflowId) -> list[dict[str, Any]]:
        """All attempts in the order they were scheduled."""
        found: list[dict[str, Any]] = self.real.call("GET", f"/workflow/{workflow_id}?includeTasks=true")["tasks"]
        return sorted(found, key=lambda task: task["seq"])

    def ended(self, workflow_id: WorkflowId, *, within: float = 60.0) -> str:
        """The workflow's final status."""

        def final() -> str:
            status = self.real.workflow_status(workflow_id)
            return "" if status in {"RUNNING", "PAUSED"} else status

        return eventually(final, within=within, what="the workflow's end")

    def first_ended(self, workflow_id: WorkflowId, *, within: float = 30.0) -> dict[str, Any]:
        """The first attempt, once it is neither scheduled nor in progress."""

        def over() -> list[dict[str, Any]]:
            return [task for task in self.tasks(workflow_id)[:1] if task["status"] not in {"SCHEDULED", "IN_PROGRESS"}]

        return eventually(over, within=within, what="the first attempt's end")[0]

    # lakeFS

    def seed(self) -> CommitId:
        """The commit that the first step reads."""
        return self.site.publish("main", {"data/log.txt": b"", "elsewhere/kept": b"untouched"})

    def head(self) -> Commit:
        return self.site.lake.head(self.site.repository, MAIN)

    def history(self, since: CommitId) -> list[CommitId]:
        """From the head down to `since`, by first parents."""
        found = [self.head()]
        while found[-1].id != since:
            parent = found[-1].first_parent
            assert parent is not None, "the head does not descend from where it should"
            found.append(self.site.lake.commit(self.site.repository, parent))
        return [commit.id for commit in found]

    def log_at(self, ref: str) -> str:
        return self.site.content(ref)["data/log.txt"].decode()

    def staging_branches(self) -> list[str]:
        return [branch.name for branch in self.site.lake.branches(self.site.repository, "perago-staging-")]

    def collect_garbage(self, *options: str) -> None:
        """Run `perago gc --delete`."""
        program = [sys.executable, "-c", "from perago.cli.main import main; main()"]
        subprocess.run(
            [*program, "gc", self.site.repository, "--delete", *options],
            cwd=self.folder,
            env=self.environment(),
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )

    def left_workspaces(self, *, of_idle_executors: bool = False) -> list[str]:
        """With the empty directories that executors keep for their next bodies only if asked."""
        found = sorted(path.name for path in self.workspaces.iterdir()) if self.workspaces.is_dir() else []
        return [name for name in found if of_idle_executors or not name.startswith(".scratch-")]

    def gate(self) -> "Gate":
        return Gate(self.folder / f"gate-{uuid.uuid4().hex[:8]}")

    def close(self) -> None:
        for worker in self.workers:
            worker.executors()
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait(10)
        for worker in self.workers:
            eventually(lambda worker=worker: not worker.survivors(), within=10, what=f"the end of {worker.survivors()}")
        self.real.close()
        if self.site_made is not None:
            self.site_made.close()


@dataclass(frozen=True)
class Gate:
    """A point where a task body waits until the test opens it."""

    path: Path

    def reached(self, within: float = 30.0) -> None:
        eventually(Path(f"{self.path}.entered").exists, within=within, what="the body")

    def open(self) -> None:
        Path(f"{self.path}.go").touch()

    def __str__(self) -> str:
        return str(self.path)


@contextmanager
def open_harness(stack: Endpoints, folder: Path) -> Generator[WorkerHarness]:
    made = WorkerHarness(stack, folder, RealConductorSite(stack.conductor_url))
    try:
        yield made
    finally:
        made.close()


def _parsed(line: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        return {"raw": line}


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
