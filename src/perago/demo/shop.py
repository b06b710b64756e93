"""The demo of the shop: submits the pipeline, kills its worker once, and shows the steps and the branch's history.

The worker is killed after it published and before Conductor gets its report. The publication is abandoned; the retry
replaces it. If asked to, a run on wrong orders comes first, which a data check refuses.
"""

import contextlib
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago.demo import screen, session, story, workers
from perago.demo.report_interceptor import ReportInterceptor
from perago.demo.session import MAIN, Session
from perago.demo.workers import DemoWorker
from perago.dev.stack import Stack
from perago.errors import SetupError
from perago.model import Commit, CommitId, Repository, WorkflowId
from perago.operate.run_state import RunReader, RunState

REPOSITORY = Repository("shop")
PIPELINE = "examples.shop.pipeline"
POISONED_PIPELINE = "examples.shop.poisoned"
KILLED_STEP = "features"
"""The step whose first worker is killed."""
_RESPONSE_TIMEOUT_SECONDS = 20
"""Of the killed step's task, after which Conductor times its attempt out."""
_README = "A web shop: raw orders, the tables made from them, and a report.\n"
_REPORT_PATH = "shop/report/index.html"


@dataclass(frozen=True, slots=True)
class ShopOptions:
    scale: float
    report: Path
    poison: bool = False
    """Whether a run on wrong orders comes first."""


def run(stack: Stack, options: ShopOptions, views: session.Views) -> None:
    """Run the pipeline on servers that run already."""
    with session.opened(stack, REPOSITORY, views) as opened:
        ShopDemo(opened, options).run()


class ShopDemo:
    def __init__(self, opened: Session, options: ShopOptions) -> None:
        self._session = opened
        self._options = options
        self._abandoned: Commit | None = None
        self._killed_at = 0.0

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="perago-demo-") as folder:
            (Path(folder) / "README.md").write_text(_README)
            seed = self._session.import_folder(Path(folder), "shop")
        with self._interceptor() as interceptor, self._worker(interceptor.url) as worker:
            worker.start()
            worker.require_started(self._session.stack.wait)
            if self._options.poison:
                self._run_poisoned(seed)
            submitted = self._session.submit(PIPELINE, {"scale": self._options.scale})
            with self._session.views(workers.log_root(self._session.directory)) as view:
                ended = self._session.follow(submitted, view, lambda state: self._react(state, interceptor, worker, view))
        self._finish(ended, seed)

    def _run_poisoned(self, seed: CommitId) -> None:
        """`SetupError` unless the data check refuses the orders and the branch stays as it is."""
        submitted = self._session.submit(POISONED_PIPELINE, {"scale": self._options.scale})
        with self._session.views(workers.log_root(self._session.directory)) as view:
            ended = self._session.follow(submitted, view, expected="FAILED")
        head = self._session.servers.lake.head(REPOSITORY, MAIN)
        if head.id != seed:
            raise SetupError(f"the branch has moved to {head.id}, although the orders are wrong")
        refused = next(attempt for attempt in ended.attempts() if attempt.status == "FAILED")
        screen.finish(
            [], [f"Refused: {refused.reason}", f"The branch {MAIN} is still at {seed[:12]}. Now the same with right orders."]
        )

    def _react(self, state: RunState, interceptor: ReportInterceptor, worker: DemoWorker, view: session.RunView) -> None:
        if interceptor.caught.is_set() and self._abandoned is None:
            self._abandoned = self._session.servers.lake.head(REPOSITORY, MAIN)
            worker.kill()
            self._killed_at = time.monotonic()
            interceptor.released.set()
            view.note(
                f"killed the worker: {KILLED_STEP} is published as {self._abandoned.id[:12]}, but not reported to Conductor; "
                f"a new worker starts, and Conductor times the attempt out after {_RESPONSE_TIMEOUT_SECONDS} s"
            )
            worker.start()
        if self._is_timeout_overdue(state):
            # Conductor itself would notice the timeout up to a minute later.
            self._session.servers.conductor.decide(state.id)
        worker.check()

    def _is_timeout_overdue(self, state: RunState) -> bool:
        timed_out = any(attempt.status == "TIMED_OUT" for attempt in state.attempts())
        return self._abandoned is not None and not timed_out and time.monotonic() - self._killed_at > _RESPONSE_TIMEOUT_SECONDS

    def _finish(self, ended: RunState, seed: CommitId) -> None:
        commits = self._session.history(seed)
        if self._abandoned is None or self._abandoned.id in {commit.id for commit in commits}:
            raise SetupError("the abandoned publication was not replaced")
        page = self._save_report(ended, self._abandoned)
        total = sum(attempt.seconds for attempt in ended.attempts())
        lines = [
            f"{KILLED_STEP} was published twice: {self._abandoned.id[:12]}, whose worker was killed, is gone from the history.",
            f"{len(commits) - 1} publications in {total:.0f} s of steps; the read-only gate made none.",
            f"Report: {page}",
        ]
        screen.finish([screen.history(commits)], lines)

    def _save_report(self, ended: RunState, abandoned: Commit) -> Path:
        """The page of the pipeline, with the attempts that made it."""
        lake = self._session.servers.lake
        page = next(iter(lake.objects(REPOSITORY, MAIN, _REPORT_PATH).objects), None)
        if page is None:
            raise SetupError(f"the pipeline left no {_REPORT_PATH}")
        target = self._options.report.absolute()
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".perago-demo-") as directory:
            made = Path(directory) / "page"
            lake.read(REPOSITORY, MAIN, page, made)
            made.write_text(story.added(made.read_text(encoding="utf-8"), list(ended.attempts()), abandoned), encoding="utf-8")
            made.replace(target)
        return target

    @contextlib.contextmanager
    def _interceptor(self) -> Generator[ReportInterceptor]:
        interceptor = ReportInterceptor(self._session.stack.conductor_url, self._is_report_of_killed_step)
        try:
            yield interceptor
        finally:
            interceptor.close()

    def _is_report_of_killed_step(self, update: dict[str, Any]) -> bool:
        if update.get("status") != "COMPLETED":
            return False
        state = RunReader(self._session.client).read(WorkflowId(update["workflowInstanceId"]), time.time())
        attempts = () if state is None else state.attempts()
        return any(one.task_id == update["taskId"] and one.step == KILLED_STEP for one in attempts)

    @contextlib.contextmanager
    def _worker(self, conductor_url: str) -> Generator[DemoWorker]:
        environment = {**self._session.stack.environment(), "CONDUCTOR_SERVER_URL": conductor_url}
        worker = DemoWorker("worker", self._session.directory, environment, [PIPELINE, "--register"])
        with workers.stopped_at_the_end([worker]):
            yield worker
