"""A Spark pipeline on real servers: options in; the branch's history, the steps with their times, and a report out.

In the middle the worker dies between publishing and reporting. Its publication is abandoned; the retry takes its place.
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

from perago.demo import pipeline, screen
from perago.demo.report_interceptor import Toll
from perago.dev.stack import Endpoints, Stack
from perago.errors import SetupError
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import BranchName, Commit, CommitId, Repository
from perago.process import child_process
from perago.supervisor import status as worker_status
from perago.terminal import console

REPOSITORY = Repository("shop")
MAIN = BranchName("main")
VICTIM = "features"
"""The step whose first worker dies."""
_LOOK_SECONDS = 0.5
_LOST_SECONDS = 20
"""The victim's response timeout, after which Conductor may give its attempt up."""
_SEED = "A web shop: raw orders, what is made of them, and a report.\n"
_PAGE = "shop/report/index.html"


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
        self._conductor = pipeline.Api(stack.conductor_url)
        self._abandoned: Commit | None = None
        self._killed_at = 0.0

    def run(self) -> None:
        seed = self._seed()
        with self._toll() as toll, self._worker(toll) as worker, screen.board() as board:
            workspace = {"repository": REPOSITORY, "branch": MAIN, "ref_type": "commit", "ref": seed}
            worker.start()
            worker.require_started(self._stack.wait)
            workflow_id = pipeline.start(self._conductor, workspace, self._options.scale)
            ended = self._follow(workflow_id, toll, worker, board)
        self._finish(ended, seed)

    # the way

    def _seed(self) -> CommitId:
        endpoints = self._stack.endpoints
        api = pipeline.Api(f"{endpoints.lakefs_url}/api/v1", f"{endpoints.access_key_id}:{endpoints.secret_access_key}")
        api.call("POST", "/repositories", {"name": REPOSITORY, "storage_namespace": f"local://{REPOSITORY}"})
        branch = f"/repositories/{REPOSITORY}/branches/{MAIN}"
        api.call("POST", f"{branch}/objects?path=shop/README.md", _SEED)
        return CommitId(api.call("POST", f"{branch}/commits", {"message": "the beginning"})["id"])

    def _follow(self, workflow_id: str, toll: Toll, worker: "Worker", board: screen.Board) -> pipeline.Workflow:
        while True:
            seen = pipeline.look(self._conductor, workflow_id, time.time())
            board.show(seen, worker.doing())
            if seen.status != "RUNNING":
                return seen
            if toll.caught.is_set() and self._abandoned is None:
                self._abandoned = self._lake.head(REPOSITORY, MAIN)
                worker.kill()
                self._killed_at = time.monotonic()
                toll.released.set()
                board.say(
                    f"killed the worker: {VICTIM} is published as {self._abandoned.id[:12]}, and Conductor never heard of it; "
                    f"a new worker starts, and Conductor gives up the lost attempt after {_LOST_SECONDS} s"
                )
                worker.start()
            if self._is_lost_for_long(seen):
                # By itself Conductor looks up to a minute later.
                self._conductor.call("PUT", f"/workflow/decide/{workflow_id}")
            worker.check()
            self._stack.wait(_LOOK_SECONDS)

    def _is_lost_for_long(self, seen: pipeline.Workflow) -> bool:
        given_up = any(attempt.status == "TIMED_OUT" for attempt in seen.attempts)
        return self._abandoned is not None and not given_up and time.monotonic() - self._killed_at > _LOST_SECONDS

    def _finish(self, ended: pipeline.Workflow, seed: CommitId) -> None:
        if ended.status != "COMPLETED":
            raise SetupError(f"the pipeline ended with {ended.status}: {ended.reason}")
        commits = self._history(seed)
        if self._abandoned is None or self._abandoned.id in {commit.id for commit in commits}:
            raise SetupError("the abandoned publication was not replaced")
        page = self._save_report()
        total = sum(attempt.seconds for attempt in ended.attempts)
        lines = [
            f"{VICTIM} was published twice: {self._abandoned.id[:12]}, whose worker died, is not in the history any more.",
            f"{len(commits) - 1} publications in {total:.0f} s of steps; the read-only gate made none.",
            f"Report: {page}",
        ]
        screen.finish([screen.steps(ended), screen.history(commits)], lines)

    def _history(self, seed: CommitId) -> list[Commit]:
        found = [self._lake.head(REPOSITORY, MAIN)]
        while found[-1].id != seed:
            parent = found[-1].first_parent
            if parent is None:
                raise SetupError("the branch does not descend from where it began")
            found.append(self._lake.commit(REPOSITORY, parent))
        return found

    def _save_report(self) -> Path:
        page = next(iter(self._lake.objects(REPOSITORY, MAIN, _PAGE).objects), None)
        if page is None:
            raise SetupError(f"the pipeline left no {_PAGE}")
        target = self._options.report.absolute()
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".perago-demo-") as room:
            self._lake.read(REPOSITORY, MAIN, page, Path(room) / "page")
            (Path(room) / "page").replace(target)
        return target

    # who takes part

    @contextlib.contextmanager
    def _toll(self) -> Generator[Toll]:
        toll = Toll(self._stack.conductor_url, self._is_victims_report)
        try:
            yield toll
        finally:
            toll.close()

    def _is_victims_report(self, update: dict[str, Any]) -> bool:
        if update.get("status") != "COMPLETED":
            return False
        task = self._conductor.call("GET", f"/tasks/{update['taskId']}")
        return task["referenceTaskName"] == VICTIM

    @contextlib.contextmanager
    def _worker(self, toll: Toll) -> Generator["Worker"]:
        worker = Worker(self._stack.data_dir / "worker", self._stack.endpoints, toll.url)
        try:
            yield worker
        finally:
            worker.stop()


class Worker:
    """`perago start` with all six tasks, as a person would run it."""

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
        """Registered, and with a warm Spark."""
        while not worker_status.running_workers(self._directory / "log"):
            self.check()
            wait(_LOOK_SECONDS)

    def doing(self) -> str:
        """What it says of the attempt that runs."""
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
    """Without what a person's own project sets for Perago, but for where caches are and how Spark is to run."""
    ours = ("PERAGO_", "LAKECTL_", "CONDUCTOR_")
    kept = ("PERAGO_CACHE_DIR", "PERAGO_MAVEN_REPOSITORY", "PERAGO_SPARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours) or name.startswith(kept)}


def _examples() -> Path:
    """The directory that holds `examples`: beside this package in a wheel, above it in a clone."""
    here = Path(__file__).parents[1]
    for root in (here / "demo", here.parents[1]):
        if (root / "examples" / "shop").is_dir():
            return root
    raise SetupError("the example pipeline is not installed; run the demonstration from a clone of the repository")


def _keys(stack: Stack) -> Path:
    """A file that only its owner reads."""
    file = stack.data_dir / "endpoints.json"
    file.touch(mode=0o600)
    file.write_text(stack.endpoints.to_json())
    return file
