"""The demo of the backfill: days of flights recomputed side by side while workers are killed, published as one commit."""

import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from perago.demo import flights, screen, session, workers
from perago.demo.random_kills import RandomKills
from perago.demo.session import MAIN, Session
from perago.demo.workers import DemoWorker
from perago.dev.stack import Stack
from perago.errors import SetupError
from perago.model import BranchName, CommitId, ObjectPath, Repository, WorkflowId
from perago.operate.run_state import Lanes, RunState

REPOSITORY = Repository("flights")
PIPELINE = "examples.backfill.pipeline"
ONE_BY_ONE = "examples.backfill.one_by_one"
SERIAL_BRANCH = BranchName("one-by-one")
LANES_BRANCH = BranchName("without-kills")
SERIAL_DAYS = 10
"""So many days are measured one after another; the time of more is extrapolated."""
_PREFIX = "flights"
_PARTITIONS = f"{_PREFIX}/daily/"
_EXECUTORS = 2
"""Of each worker."""
_LEASE_SECONDS = 11.0
"""After so many seconds the lease of every attempt that its worker had when it was killed has expired."""


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    days: int
    kills: int
    workers: int


def run(stack: Stack, options: BackfillOptions, tables: Path, views: session.Views, repository: Repository = REPOSITORY) -> None:
    """Run the pipeline on servers that run already. `tables` is what `flights.ensure` returned."""
    with session.opened(stack, repository, views) as opened:
        BackfillDemo(opened, options).run(tables)


class BackfillDemo:
    def __init__(self, opened: Session, options: BackfillOptions) -> None:
        self._session = opened
        self._options = options
        arguments = [PIPELINE, "--register", "--jobs", str(_EXECUTORS)]
        self._workers = [
            DemoWorker(f"worker {number}", opened.directory, opened.stack.environment(), arguments)
            for number in range(1, options.workers + 1)
        ]
        self._kills = RandomKills(self._workers, options.kills, options.days, random.Random())  # noqa: S311 - no secret
        self._expiring: list[tuple[float, WorkflowId]] = []

    def run(self, tables: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="perago-demo-") as folder:
            flights.write(tables, Path(folder), self._options.days)
            imported = self._session.import_folder(Path(folder), _PREFIX)
        with workers.stopped_at_the_end(self._workers):
            for worker in self._workers:
                worker.start()
            for worker in self._workers:
                worker.require_started(self._session.stack.wait)
            ended = self._side_by_side()
            lines = self._verify(imported, ended)
            lines += self._compare(ended.seconds, imported)
        screen.finish([screen.history(self._session.history(imported))], lines)

    def _side_by_side(self) -> RunState:
        submitted = self._session.submit(PIPELINE, {"count": self._options.days})
        with self._session.views(workers.log_root(self._session.directory)) as view:
            return self._session.follow(submitted, view, lambda state: self._react(state, view))

    def _react(self, state: RunState, view: session.RunView) -> None:
        if state.is_active:
            for line in self._kills.due(completed_steps(state)):
                view.note(line)
        for worker in self._workers:
            worker.check()
        self._notice_abandoned()

    def _notice_abandoned(self) -> None:
        """Let Conductor look at the workflows of killed workers when the leases have expired. By itself it looks later."""
        now = time.monotonic()
        self._expiring += [(now + _LEASE_SECONDS, workflow) for workflow in self._kills.abandoned]
        self._kills.abandoned.clear()
        for moment, workflow in [one for one in self._expiring if one[0] < now]:
            self._expiring.remove((moment, workflow))
            self._session.servers.conductor.decide(workflow)

    def _verify(self, imported: CommitId, ended: RunState) -> list[str]:
        """`SetupError` unless one commit has all partitions and nothing else is left."""
        lake, repository = self._session.servers.lake, self._session.repository
        commits = self._session.history(imported)[:-1]
        wanted = [f"{_PARTITIONS}{day}.csv" for day in flights.first_days(self._options.days)]
        if len(commits) != 1:
            raise SetupError(f"the branch has {len(commits)} commits on the imported one, not 1")
        changed = sorted(change.path for change in lake.differences(repository, imported, commits[0].id))
        if changed != list(map(ObjectPath, wanted)):
            raise SetupError(f"commit {commits[0].id} changed {len(changed)} objects, not the {len(wanted)} partitions")
        if left := [branch.name for branch in lake.branches(repository, "") if branch.name != MAIN]:
            raise SetupError(f"branches are left: {', '.join(left)}")
        result = {name: value for name, value in ended.output.items() if name != "workspace"}
        return [
            f"{len(wanted)} partitions in exactly one commit, {commits[0].id[:12]}; no other branch is left.",
            f"Result: {', '.join(f'{name} {value}' for name, value in result.items())}",
            f"{_kill_line(self._kills, self._options.kills)} The run took {ended.seconds:.1f} s with them.",
        ]

    def _compare(self, with_kills: float, imported: CommitId) -> list[str]:
        """Measure the same days without kills, side by side and one after another, each on a branch of its own."""
        count = min(SERIAL_DAYS, self._options.days)
        lanes = self._measure(PIPELINE, LANES_BRANCH, self._options.days, imported) if self._options.kills else with_kills
        serial = self._measure(ONE_BY_ONE, SERIAL_BRANCH, count, imported)
        return comparison(self._options.days, lanes, count, serial)

    def _measure(self, module: str, branch: BranchName, count: int, imported: CommitId) -> float:
        """The seconds of a run without kills."""
        self._session.servers.settings.create_branch(self._session.repository, branch, imported)
        submitted = self._session.submit(module, {"count": count}, branch)
        with self._session.views(workers.log_root(self._session.directory)) as view:
            return self._session.follow(submitted, view).seconds


def completed_steps(state: RunState) -> int:
    """Of all lanes and of the steps around them."""
    return sum(row.counts["done"] if isinstance(row, Lanes) else row.status == "COMPLETED" for row in state.rows)


def comparison(days: int, seconds: float, measured_days: int, measured_seconds: float) -> list[str]:
    """The time side by side against the time one after another, which is extrapolated from fewer days if there are many."""
    expected = measured_seconds / measured_days * days
    how = "measured" if measured_days == days else f"extrapolated from {measured_days} days in {measured_seconds:.1f} s"
    return [
        f"Without kills, {days} days side by side and published once: {seconds:.1f} s.",
        f"One after another, each published: {expected:.1f} s ({how}), {expected / seconds:.1f} times as long.",
    ]


def _kill_line(kills: RandomKills, wanted: int) -> str:
    done = kills.workers + kills.executors
    rest = f"; the run ended before the other {wanted - done}" if done < wanted else ""
    return f"{done} kills: {kills.workers} of workers with all their executors, {kills.executors} of single executors{rest}."
