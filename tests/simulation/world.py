"""One target branch, a Conductor that gives up, reruns and restarts, and workers that walk the spine. Moves come in singly."""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tests.simulation import ports
from tests.simulation.actors import Actor, How, Hub
from tests.simulation.oracle import Oracle

from perago.attempt import orphans, spine
from perago.conductor import completion
from perago.conductor.port import Conductor, Polled, Snapshot
from perago.errors import PeragoError, TaskStatus
from perago.lake.port import Lake
from perago.model import (
    Attempt,
    BranchName,
    Commit,
    CommitId,
    ExecutionId,
    ObjectPath,
    Outcome,
    Repository,
    TaskType,
    WorkerId,
    WorkflowId,
    WorkspaceRef,
)
from perago.protocol import names
from perago.testing import attempts
from perago.testing.conductor import FakeConductor, Step, Task
from perago.testing.lake import MAIN, MemoryLake

REPOSITORY = Repository("repo")
PREFIX = "in/"
TASK = TaskType("step")
CONDUCTOR = "Conductor"
HAND_OUT = "hand out "
GIVE_UP = (CONDUCTOR, "give up")
ABANDON = (CONDUCTOR, "begin on an abandoned publication")
_DELIVERY_TICKS = 10.0

Files = dict[str, bytes]
Move = tuple[str, str]
"""Who, and what it does: an actor or a request and how its call goes, or Conductor and its whim."""


def _add(files: Files, mark: bytes) -> None:
    files[f"by-{mark.decode()}"] = mark


def _overwrite(files: Files, mark: bytes) -> None:
    files["x"] = mark


def _delete(files: Files, mark: bytes) -> None:
    files.pop("y", None)
    files["z"] = mark


def _nothing(files: Files, mark: bytes) -> None:
    """A no-op."""


BODIES: dict[str, Callable[[Files, bytes], None]] = {
    "adds": _add,
    "changes nothing": _nothing,
    "overwrites": _overwrite,
    "deletes": _delete,
    "adds on its branch": _add,
    "changes nothing on its branch": _nothing,
}
ON_BRANCH = "on its branch"
"""Those whose body itself writes to the staging branch, which is there before it runs."""


@dataclass(frozen=True, slots=True)
class Told:
    """A move that was made: who, on which port call, how, and where the target stood after it."""

    who: str
    verb: str
    what: str
    head: CommitId


@dataclass
class Worker:
    """One execution of one attempt."""

    name: str
    polled: Polled
    body: str
    place: tuple[int, int]
    execution: ExecutionId
    source: WorkspaceRef = field(init=False)
    staging: BranchName = field(init=False)
    faults: set[str] = field(default_factory=set[str])
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        given: Any = self.polled.input["workspace"]
        self.source = WorkspaceRef(REPOSITORY, MAIN, CommitId(given["ref"]))
        self.staging = names.staging_branch(self.attempt, self.execution, MAIN)

    @property
    def attempt(self) -> Attempt:
        return self.polled.attempt

    def run(self, files: Files) -> None:
        BODIES[self.body](files, self.name.encode())

    def expected(self, given: dict[ObjectPath, bytes]) -> dict[ObjectPath, bytes]:
        inside = {path.removeprefix(PREFIX): data for path, data in given.items() if path.startswith(PREFIX)}
        outside = {path: data for path, data in given.items() if not path.startswith(PREFIX)}
        self.run(inside)
        return outside | {ObjectPath(PREFIX + path): data for path, data in inside.items()}


@dataclass(frozen=True, slots=True)
class Fence:
    """The attempt fence: a fresh read, every time."""

    worker: Worker
    conductor: ports.NetConductor

    def snapshot(self, attempt: Attempt) -> Snapshot:
        return self.conductor.snapshot(attempt.workflow_id, attempt.task_id)

    def lease_seconds_left(self) -> float:
        return 60.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How workers reach the servers. Mutations take other ones, which break a rule of the protocol."""

    lake: Callable[[Actor, MemoryLake], ports.NetLake] = ports.NetLake
    fence: Callable[[Worker, ports.NetConductor], Any] = Fence


class World:
    """`hand_outs`, `whims` and the hub say what may happen next; `move` makes it happen and checks every rule.

    Three things are left out, because the protocol does not claim to survive them: a report that Conductor takes although it has
    handed the task out again since; two executions of one poll; a new workflow whose input is not what was accepted last.
    """

    def __init__(self, steps: int = 2, rules: Rules | None = None, *, most_workers: int = 5, most_whims: int = 4) -> None:
        self.rules = rules or Rules()
        self.steps, self.most_workers, self.whims_left = steps, most_workers, most_whims
        self.hub = Hub()
        self.lake = MemoryLake(self.hub.gate)
        self.lake.create_repository(REPOSITORY)
        self.root = self.lake.publish(REPOSITORY, MAIN, {"in/x": b"1", "in/y": b"2", "outside": b"3"}).id
        self.workers: dict[str, Worker] = {}
        self.told: list[Told] = []
        self._by_execution: dict[str, Worker] = {}
        self._workflows: list[WorkflowId] = []
        ids, self._nonces, self._collections = itertools.count(1), itertools.count(1), 0
        self.conductor = FakeConductor(clock=lambda: 1.0, new_id=lambda: f"id{next(ids)}")
        self.oracle = Oracle(self.lake, REPOSITORY, MAIN, PREFIX, self.author_of)
        self._start(self.root)

    def author_of(self, commit: Commit) -> Worker | None:
        return self._by_execution.get(commit.metadata.get("perago.execution", ""))

    # what may happen

    def hand_outs(self) -> list[Move]:
        if len(self.workers) >= self.most_workers or not self.conductor._queues.get(TASK):
            return []
        return [(CONDUCTOR, HAND_OUT + body) for body in BODIES]

    def whims(self) -> list[Move]:
        """What Conductor, or the people in front of it, may do at any time."""
        if not self.workers:
            return [ABANDON] if self.oracle.head == self.root else []
        if not self.whims_left or len(self.workers) >= self.most_workers:
            return []
        current = self._current()
        found = ["collect"] if not self._collections else []
        if current is not None and current.status == "IN_PROGRESS":
            found += ["give up", "rerun", "hand back", "restart"]
            found += ["skip"] if current.step + 1 < self.steps else []
        found += ["rerun from the first step"] if self._first_completed() is not None else []
        return [(CONDUCTOR, whim) for whim in found]

    def _current(self) -> Task | None:
        """The task that Conductor waits for; None once the workflow is over."""
        return next((row for row in self.conductor.tasks.values() if row.status in {"SCHEDULED", "IN_PROGRESS"}), None)

    def _first_completed(self) -> Task | None:
        rows = self.conductor.tasks_of(self._workflows[-1])
        return next((row for row in rows if row.step == 0 and row.status == "COMPLETED"), None)

    # how it happens

    def move(self, move: Move) -> None:
        who, what = move
        mover = who.partition("/")[0]
        verb = "" if who == CONDUCTOR else self.hub.verb_of(who)
        try:
            if who == CONDUCTOR:
                self._conduct(what)
            else:
                self.hub.move(who, How(what))
            self.oracle.step(mover)
        finally:
            self.told.append(Told(who, verb, what, self.oracle.head))
        worker = self.workers.get(mover)
        if worker is not None and worker.name not in self.hub.actors and worker.outcome is not None:
            self.oracle.ended(worker)

    def _conduct(self, what: str) -> None:
        if what.startswith(HAND_OUT):
            self._hand_out(what.removeprefix(HAND_OUT))
            return
        if what == ABANDON[1]:
            self.lake.publish(REPOSITORY, MAIN, {"in/left": b"behind"})
            return
        self.whims_left -= 1
        row = self._current()
        match what:
            case "collect":
                self._collections += 1
                self.hub.start(Actor(f"gc{self._collections}", self.hub, self._collect))
            case "rerun from the first step":
                self._rerun(self._first_completed())
            case "rerun":
                self._rerun(row)
            case "give up" if row is not None:
                self.conductor.expire(row.task_id)
            case "hand back" if row is not None:
                self.conductor.hand_back(self.conductor._polled(row).attempt)
            case "skip" if row is not None:
                self.conductor.tasks[row.task_id] = replace(row, status="COMPLETED_WITH_ERRORS")
                with self.conductor._changed:
                    self.conductor._schedule(row.workflow_id, row.step + 1)
            case "restart":
                self.conductor.terminate(self._workflows[-1])
                self._start(self.oracle.base or self.root)
            case _:
                raise AssertionError(what)

    def _start(self, ref: CommitId) -> None:
        first = attempts.workspace_input(WorkspaceRef(REPOSITORY, MAIN, ref))

        given = [self.later_input([f"s{before}" for before in reversed(range(number))], first) for number in range(self.steps)]
        self._workflows.append(self.conductor.start([Step(TASK, f"s{number}", each) for number, each in enumerate(given)]))

    def later_input(self, earlier: list[str], first: Mapping[str, Any]) -> Callable[[Any], Any]:
        """What the latest of the earlier steps left; the workflow's own input where none left anything."""
        return lambda outputs: next(({**outputs[name], "params": {}} for name in earlier if outputs.get(name)), first)

    def _rerun(self, row: Task | None) -> None:
        assert row is not None
        self.oracle.taken_back(self._workflows.index(row.workflow_id), row.step)
        self.conductor.rerun(row.workflow_id, row.task_id)

    # workers

    def _hand_out(self, body: str) -> None:
        polled = self.conductor.poll(TASK, WorkerId(f"w-{next(self._nonces)}"), wait_seconds=0)
        assert polled is not None
        row = self.conductor.tasks[polled.attempt.task_id]
        number = len(self.workers) + 1
        place = (self._workflows.index(row.workflow_id), row.step)
        worker = Worker(f"w{number}", polled, body, place, ExecutionId(f"e{number}"))
        self.workers[worker.name] = self._by_execution[worker.execution] = worker
        self.oracle.handed_out(worker)
        actor = Actor(worker.name, self.hub, lambda actor: self._work(worker, actor))
        worker.faults = actor.faults
        self.hub.start(actor)

    def _work(self, worker: Worker, actor: Actor) -> None:
        net = self.rules.lake(actor, self.lake)
        lake = cast("Lake", net)
        conductor = ports.NetConductor(actor, self.conductor, lambda outcome: self._take(worker, outcome))
        workspace = ports.BranchWorkspace if worker.body.endswith(ON_BRANCH) else ports.NetWorkspace
        execution = spine.Execution(
            worker.attempt,
            worker.execution,
            attempts.DictTask(worker.run),
            lake,
            self.rules.fence(worker, conductor),
            lambda ref: workspace(net, lake, ref, PREFIX),
            clock=lambda: 0.0,
        )
        worker.outcome = spine.run(execution, worker.polled.input)
        ticks = itertools.count()
        completion.deliver(
            cast("Conductor", conductor),
            worker.attempt,
            worker.outcome,
            deadline=_DELIVERY_TICKS,
            request_timeout=1,
            clock=lambda: float(next(ticks)),
            sleep=lambda _seconds: None,
        )

    def _take(self, worker: Worker, outcome: Outcome) -> None:
        """Conductor takes a result only from the execution that it waits for."""
        seen = self.conductor.task(worker.attempt.task_id)
        if not completion.is_current(worker.attempt, seen) or self.conductor.workflow_status(seen.workflow_id) != "RUNNING":
            return
        if outcome.status is TaskStatus.COMPLETED:
            shown: Any = (outcome.output or {})["workspace"]
            self.oracle.accepted(worker, CommitId(shown["ref"]))
        self.conductor.report(worker.attempt, outcome, timeout=1)

    # collection

    def _collect(self, actor: Actor) -> None:
        lake = cast("Lake", ports.NetLake(actor, self.lake))
        conductor = cast("Conductor", ports.NetConductor(actor, self.conductor, lambda _outcome: None))
        with contextlib.suppress(PeragoError):  # the command ends with it
            found = orphans.find(lake, conductor, REPOSITORY, now=0.0, older_than=1e9)
            list(orphans.delete(lake, REPOSITORY, found))

    def finish(self) -> None:
        """Everybody dies, every request comes to its end, and what Conductor no longer waits for is collected."""
        self.hub.crash_all()
        self.hub.drain()
        self.oracle.step("somebody")
        self.collect()
        self.oracle.collected(lambda name: not self._is_awaited(name))
        for workflow in self._workflows:
            self.conductor.terminate(workflow)
        self.collect()
        self.oracle.collected(lambda _name: True)

    def collect(self) -> None:
        found = orphans.find(self.lake, self.conductor, REPOSITORY, now=0.0, older_than=1e9)
        list(orphans.delete(self.lake, REPOSITORY, found))

    def _is_awaited(self, name: names.StagingName) -> bool:
        row = self._current()
        return row is not None and row.task_id == name.task_id
