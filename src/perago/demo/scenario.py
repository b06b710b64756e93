"""Runs the demo: starts the pipeline and its worker, kills the worker once, and shows the steps and the branch's history.

The worker is killed after it published and before Conductor gets its report. The publication is abandoned; the retry
replaces it.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago import settings
from perago.demo import pipeline, screen, story
from perago.demo.report_interceptor import ReportInterceptor
from perago.dev.stack import Endpoints, Stack
from perago.errors import SetupError
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import BranchName, Commit, CommitId, Repository, WorkspaceRef
from perago.process import child_process
from perago.supervisor import status as worker_status
from perago.terminal import console

REPOSITORY = Repository("shop")
MAIN = BranchName("main")
KILLED_STEP = "features"
"""The step whose first worker is killed."""
_POLL_SECONDS = 0.5
_RESPONSE_TIMEOUT_SECONDS = 20
"""Of the killed step's task, after which Conductor times its attempt out."""
_README = "A web shop: raw orders, the tables made from them, and a report.\n"
_REPORT_PATH = "shop/report/index.html"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    scale: float
    keep: bool
    report: Path


def run(stack: Stack, options: DemoOptions) -> None:
    """Run the pipeline on servers that run already; keeps them if asked to."""
    lake = LakeFS(stack.lakefs_url, stack.access_key_id, stack.secret_access_key, timeouts=HttpTimeouts(connect=5, request=30))
    with contextlib.closing(lake):
        Demo(stack, lake, options).run()
    if options.keep:
        console.stdout().print(f"The servers run until Ctrl-C. lakeFS: {stack.lakefs_url}, its keys are in {_keys(stack)}")
        stack.watch()


class Demo:
    def __init__(self, stack: Stack, lake: LakeFS, options: DemoOptions) -> None:
        self._stack = stack
        self._lake = lake
        self._options = options
        self._conductor = pipeline.JsonApi(stack.conductor_url)
        self._abandoned: Commit | None = None
        self._killed_at = 0.0

    def run(self) -> None:
        seed = self._create_repository()
        with self._interceptor() as interceptor, self._worker(interceptor) as worker, screen.board() as board:
            workspace = WorkspaceRef(REPOSITORY, MAIN, seed).as_json()
            worker.start()
            worker.require_started(self._stack.wait)
            workflow_id = pipeline.start(self._conductor, workspace, self._options.scale)
            ended = self._follow(workflow_id, interceptor, worker, board)
        self._finish(ended, seed)

    def _create_repository(self) -> CommitId:
        endpoints = self._stack.endpoints
        api = pipeline.JsonApi(f"{endpoints.lakefs_url}/api/v1", f"{endpoints.access_key_id}:{endpoints.secret_access_key}")
        api.call("POST", "/repositories", {"name": REPOSITORY, "storage_namespace": f"local://{REPOSITORY}"})
        branch = f"/repositories/{REPOSITORY}/branches/{MAIN}"
        api.call("POST", f"{branch}/objects?path=shop/README.md", _README)
        return CommitId(api.call("POST", f"{branch}/commits", {"message": "initial commit"})["id"])

    def _follow(
        self, workflow_id: str, interceptor: ReportInterceptor, worker: "DemoWorker", board: screen.Board
    ) -> pipeline.PipelineState:
        while True:
            seen = pipeline.read_workflow(self._conductor, workflow_id, time.time())
            board.show(seen, worker.current_phase())
            if seen.status != "RUNNING":
                return seen
            if interceptor.caught.is_set() and self._abandoned is None:
                self._abandoned = self._lake.head(REPOSITORY, MAIN)
                worker.kill()
                self._killed_at = time.monotonic()
                interceptor.released.set()
                board.announce(
                    f"killed the worker: {KILLED_STEP} is published as {self._abandoned.id[:12]}, but not reported to Conductor; "
                    f"a new worker starts, and Conductor times the attempt out after {_RESPONSE_TIMEOUT_SECONDS} s"
                )
                worker.start()
            if self._is_timeout_overdue(seen):
                # Conductor itself would notice the timeout up to a minute later.
                self._conductor.call("PUT", f"/workflow/decide/{workflow_id}")
            worker.check()
            self._stack.wait(_POLL_SECONDS)

    def _is_timeout_overdue(self, seen: pipeline.PipelineState) -> bool:
        timed_out = any(attempt.status == "TIMED_OUT" for attempt in seen.attempts)
        return self._abandoned is not None and not timed_out and time.monotonic() - self._killed_at > _RESPONSE_TIMEOUT_SECONDS

    def _finish(self, ended: pipeline.PipelineState, seed: CommitId) -> None:
        if ended.status != "COMPLETED":
            raise SetupError(f"the pipeline ended with {ended.status}: {ended.reason}")
        commits = self._history(seed)
        if self._abandoned is None or self._abandoned.id in {commit.id for commit in commits}:
            raise SetupError("the abandoned publication was not replaced")
        page = self._save_report(ended, self._abandoned)
        total = sum(attempt.seconds for attempt in ended.attempts)
        lines = [
            f"{KILLED_STEP} was published twice: {self._abandoned.id[:12]}, whose worker was killed, is gone from the history.",
            f"{len(commits) - 1} publications in {total:.0f} s of steps; the read-only gate made none.",
            f"Report: {page}",
        ]
        screen.finish([screen.steps(ended), screen.history(commits)], lines)

    def _history(self, seed: CommitId) -> list[Commit]:
        found = [self._lake.head(REPOSITORY, MAIN)]
        while found[-1].id != seed:
            parent = found[-1].first_parent
            if parent is None:
                raise SetupError("the branch does not descend from the initial commit")
            found.append(self._lake.commit(REPOSITORY, parent))
        return found

    def _save_report(self, ended: pipeline.PipelineState, abandoned: Commit) -> Path:
        """The page of the pipeline, with the attempts that made it."""
        page = next(iter(self._lake.objects(REPOSITORY, MAIN, _REPORT_PATH).objects), None)
        if page is None:
            raise SetupError(f"the pipeline left no {_REPORT_PATH}")
        target = self._options.report.absolute()
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".perago-demo-") as directory:
            self._lake.read(REPOSITORY, MAIN, page, Path(directory) / "page")
            made = Path(directory) / "page"
            made.write_text(story.added(made.read_text(encoding="utf-8"), ended.attempts, abandoned), encoding="utf-8")
            made.replace(target)
        return target

    @contextlib.contextmanager
    def _interceptor(self) -> Generator[ReportInterceptor]:
        interceptor = ReportInterceptor(self._stack.conductor_url, self._is_report_of_killed_step)
        try:
            yield interceptor
        finally:
            interceptor.close()

    def _is_report_of_killed_step(self, update: dict[str, Any]) -> bool:
        if update.get("status") != "COMPLETED":
            return False
        task = self._conductor.call("GET", f"/tasks/{update['taskId']}")
        return task["referenceTaskName"] == KILLED_STEP

    @contextlib.contextmanager
    def _worker(self, interceptor: ReportInterceptor) -> Generator["DemoWorker"]:
        worker = DemoWorker(self._stack.data_dir / "worker", self._stack.endpoints, interceptor.url)
        try:
            yield worker
        finally:
            worker.stop()


class DemoWorker:
    """`perago start` with all six tasks in a child process."""

    def __init__(self, directory: Path, endpoints: Endpoints, conductor_url: str) -> None:
        directory.mkdir()
        self._directory = directory
        self._environment = {**_inherited(), **endpoints.environment(), "CONDUCTOR_SERVER_URL": conductor_url}
        self._environment |= {f"PERAGO_{name}_ROOT": str(directory / name.lower()) for name in ("WORKSPACE", "LOG", "CACHE")}
        self._environment["PYTHONPATH"] = str(_examples())
        self._child: child_process.ChildProcess | None = None

    def start(self) -> None:
        line = [sys.executable, "-c", "from perago.cli.main import main; main()", "start", *pipeline.MODULES, "--register"]
        command = child_process.Command(line, self._directory, self._log, self._environment, grace=30.0)
        self._child = child_process.ChildProcess(command)

    def require_started(self, wait: Callable[[float], None]) -> None:
        """Wait until the tasks are registered and Spark runs; `SetupError` if the worker ends."""
        while not worker_status.running_workers(self._directory / "log"):
            self.check()
            wait(_POLL_SECONDS)

    def current_phase(self) -> str:
        """Phase and progress of the running attempt, as the worker reports them."""
        for shown in worker_status.running_workers(self._directory / "log"):
            for slot in shown.state.get("slots", ()):
                if attempt := slot.get("attempt"):
                    return f"{attempt['phase']} {attempt['progress']}".rstrip()
        return ""

    def check(self) -> None:
        if self._child is not None and (code := self._child.exit_code()) is not None:
            raise SetupError(f"the worker ended with exit code {code}:\n{child_process.tail(self._log)}")

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    @property
    def _log(self) -> Path:
        return self._directory / "worker.log"


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


def _examples() -> Path:
    """The directory that contains `examples`: beside this package in a wheel, above it in a clone."""
    here = Path(__file__).parents[1]
    for root in (here / "demo", here.parents[1]):
        if (root / "examples" / "shop").is_dir():
            return root
    raise SetupError("the example pipeline is not installed; run the demo from a clone of the repository")


def _keys(stack: Stack) -> Path:
    """A file with the keys that only its owner can read."""
    file = stack.data_dir / "endpoints.json"
    file.touch(mode=0o600)
    file.write_text(stack.endpoints.to_json())
    return file
