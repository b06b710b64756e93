"""The simulated system: one target branch, Conductor, workers and commits by hand. It changes by one move at a time."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar, cast

from perago.attempt import branch_gc, overlap, staging_gc, transaction
from perago.attempt.execution import Execution
from perago.conductor import reporting
from perago.conductor.port import Conductor, Polled, Snapshot
from perago.errors import PeragoError, TaskStatus
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import TaskRow, WorkflowStep
from perago.in_memory.lake import MAIN, MemoryLake
from perago.lake.port import Lake
from perago.model import (
    Attempt,
    Commit,
    CommitId,
    ExecutionId,
    ObjectPath,
    Outcome,
    Repository,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
    WorkspaceRef,
)
from perago.operate.protocol_check.dict_task import DictTask, workspace_input
from perago.protocol import commit_labels, fence, staging_names
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK, TaskState
from perago.supervisor import restore_accepted
from simulation import ports
from simulation.actors import UPDATES, Actor, CallOutcome, Hub
from simulation.invariants import Oracle
from simulation.setup import Setting, one

T = TypeVar("T")

REPOSITORY = Repository("repo")
PREFIX = "in/"
CONDUCTOR = "Conductor"
PERSON = "person"
HAND_OUT = "hand out "
START = "start "
GIVE_UP = "give up "
ABANDON = (CONDUCTOR, "begin on an abandoned publication")
BY_HAND = (PERSON, "commit by hand")
FROM_FIRST, FROM_HEAD, FROM_BELOW = "from the first commit", "from the head", "from the commit below the head"
_DELIVERY_TICKS = 10.0

Files = dict[str, bytes]
Move = tuple[str, str]
"""Who moves, and what happens: an actor or a request with the outcome of its call, or Conductor or a person with an event."""


def _add(files: Files, mark: bytes) -> None:
    files[f"by-{mark.decode()}"] = mark


def _overwrite(files: Files, mark: bytes) -> None:
    files["x"] = mark


def _delete(files: Files, mark: bytes) -> None:
    files.pop("y", None)
    files["z"] = mark


def _only_delete(files: Files, mark: bytes) -> None:
    """Upload nothing: the result has the same content for lakeFS, whichever worker makes it."""
    del mark
    files.pop("y", None)


def _nothing(files: Files, mark: bytes) -> None:
    """Change nothing."""


BODIES: dict[str, Callable[[Files, bytes], None]] = {
    "adds": _add,
    "changes nothing": _nothing,
    "overwrites": _overwrite,
    "deletes": _delete,
    "only deletes": _only_delete,
    "adds on its branch": _add,
    "changes nothing on its branch": _nothing,
}
ON_BRANCH = "on its branch"
"""The end of the names of bodies that write to the staging branch directly, which therefore exists before they run."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that was made: who moved, at which port call, what happened, and the head of the target branch afterwards."""

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
    faults: set[str] = field(default_factory=set[str])
    outcome: Outcome | None = None
    has_ended: bool = False
    """It ended without a crash."""
    is_restored: bool = True
    """False if it had to restore a commit and failed."""

    def __post_init__(self) -> None:
        given: Any = self.polled.input["workspace"]
        self.source = WorkspaceRef(REPOSITORY, MAIN, CommitId(given["ref"]))

    @property
    def attempt(self) -> Attempt:
        return self.polled.attempt

    @property
    def is_sound(self) -> bool:
        """It ended without a crash or a fault, except for lost replies to its publish requests."""
        return self.has_ended and self.is_restored and self.faults <= UPDATES

    def run(self, files: Files) -> None:
        BODIES[self.body](files, self.name.encode())

    def expected(self, given: dict[ObjectPath, bytes]) -> dict[ObjectPath, bytes]:
        inside = {path.removeprefix(PREFIX): data for path, data in given.items() if path.startswith(PREFIX)}
        outside = {path: data for path, data in given.items() if not path.startswith(PREFIX)}
        self.run(inside)
        return outside | {ObjectPath(PREFIX + path): data for path, data in inside.items()}


@dataclass
class Fence:
    """Implements `perago.conductor.port.AttemptFence`: reads from Conductor each time."""

    worker: Worker
    conductor: ports.NetConductor

    def snapshot(self, attempt: Attempt) -> Snapshot:
        return self.conductor.snapshot(attempt.workflow_id, attempt.task_id)

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        return self.conductor.task(task_id) if workflow_id is None else self.conductor.snapshot(workflow_id, task_id)

    def lease_seconds_left(self) -> float:
        return 60.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How workers reach the servers. Mutations replace some of these by versions that break a rule of the protocol."""

    lake: Callable[[Actor, MemoryLake], ports.NetLake] = ports.NetLake
    conductor: Callable[[Actor, FakeConductor, Callable[[Outcome], None]], ports.NetConductor] = ports.NetConductor
    fence: Callable[[Worker, ports.NetConductor], Any] = Fence
    restores: bool = True
    checks_early: bool = True
    overlaps: bool = False
    """Whether workers list their rivals before they commit, and report before they clean up, without another read of their task:
    the extremes that requests at the same time lead to. Otherwise each request follows the one before it."""


class World:
    """`hand_outs`, `starts`, `interventions` and `actors` return the possible moves; `move` makes one and checks every rule.

    Two executions of one poll are not simulated, because the protocol does not claim to handle them.
    """

    def __init__(self, setting: Setting | None = None, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.setting = setting = setting or one(2)
        self.interventions_left, self.by_hand_left = setting.max_interventions, setting.by_hand
        self.hub = Hub()
        self.lake = MemoryLake(self.hub.gate)
        self.lake.create_repository(REPOSITORY)
        self.root = self.lake.publish(REPOSITORY, MAIN, {"in/x": b"1", "in/y": b"2", "outside": b"3"}).id
        self.workers: dict[str, Worker] = {}
        self.log: list[MoveRecord] = []
        self._by_execution: dict[str, Worker] = {}
        self._workflows: dict[int, WorkflowId] = {}
        ids, self._nonces, self._collections = itertools.count(1), itertools.count(1), 0
        self.conductor = FakeConductor(clock=lambda: 1.0, new_id=lambda: f"id{next(ids)}")
        self.conductor.between_reads = self.hub.between_reads
        self.oracle = Oracle(self.lake, REPOSITORY, MAIN, PREFIX, setting, self.author_of)
        for number in range(1 if setting.starts_later else len(setting.workflows)):
            self._start(number, self.root)

    def author_of(self, commit: Commit) -> Worker | None:
        return self._by_execution.get(commit.metadata.get("perago.execution", ""))

    # possible moves

    def actors(self) -> list[tuple[str, tuple[CallOutcome, ...]]]:
        found = self.hub.can_move()
        return (
            [(who, (CallOutcome.GO,)) for who, outcomes in found if CallOutcome.GO in outcomes] if self.setting.is_calm else found
        )

    def hand_outs(self) -> list[Move]:
        """Every scheduled task with every body that it may have; without retries in a calm setting."""
        if len(self.workers) >= self.setting.most_workers:
            return []
        rows = [row for row in self._unfinished() if row.status == TaskState.SCHEDULED]
        rows = [row for row in rows if row.retry_count == 0] if self.setting.is_calm else rows
        return [(CONDUCTOR, f"{HAND_OUT}{_step(row)} {body}") for row in rows for body in self.setting.bodies]

    def starts(self) -> list[Move]:
        """The start of the next workflow, from each commit that may be its input."""
        number = len(self._workflows)
        if number == len(self.setting.workflows) or len(self.workers) >= self.setting.most_workers:
            return []
        below = self.oracle.commit(self.oracle.head).first_parent
        commits = {self.root: FROM_FIRST, self.oracle.head: FROM_HEAD}
        if self.oracle.head != self.root and below is not None:
            commits.setdefault(below, FROM_BELOW)
        return [(CONDUCTOR, f"{START}{number + 1} {where}") for where in commits.values()]

    def interventions(self) -> list[Move]:
        """What Conductor or its operators may do at any time: give up, rerun, pause and so on; also commits by hand."""
        if not self.workers:
            return [ABANDON] if self.oracle.head == self.root else []
        if not self.interventions_left or self.setting.is_calm:
            return []
        found = ["collect"] if not self._collections else []
        for row in self._unfinished():
            if row.status == TaskState.IN_PROGRESS:
                found += [f"{intervention} {_step(row)}" for intervention in ("give up", "rerun", "hand back")]
                shape = self.setting.workflows[_place(row)[0]]
                found += [f"skip {_step(row)}"] if shape.lanes == 1 and row.step + 1 < shape.steps else []
        for number, workflow in self._workflows.items():
            status = self.conductor.workflow_status(workflow)
            found += [f"restart {number + 1}"]
            found += {"RUNNING": [f"pause {number + 1}", f"terminate {number + 1}"], "PAUSED": [f"resume {number + 1}"]}.get(
                status, []
            )
            first = next(
                (row for row in self.conductor.tasks_of(workflow) if row.step == 0 and row.status == TaskState.COMPLETED),
                None,
            )
            found += [f"rerun {_step(first)}"] if first is not None else []
        return [(CONDUCTOR, intervention) for intervention in found] + ([BY_HAND] if self.by_hand_left else [])

    def _unfinished(self) -> list[TaskRow]:
        return [row for row in self.conductor.tasks.values() if row.status in UNFINISHED_TASK]

    # making a move

    def move(self, move: Move) -> None:
        who, what = move
        mover = who.partition("/")[0]
        verb = self.hub.verb_of(who) if who in self.hub.actors or who in self.hub.requests else ""
        try:
            if who == CONDUCTOR:
                self._conduct(what)
            elif move == BY_HAND:
                self._commit_by_hand()
            else:
                self.hub.move(who, CallOutcome(what))
                if verb == "head" and not self.hub.has_update_of(mover):
                    self.oracle.read_head(mover)
            self.oracle.step(mover)
        finally:
            self.log.append(MoveRecord(who, verb, what, self.oracle.head))
        worker = self.workers.get(mover)
        if worker is not None and worker.has_ended:
            self.oracle.ended(worker)

    def _commit_by_hand(self) -> None:
        self.by_hand_left -= 1
        self.interventions_left -= 1
        made = self.lake.publish(REPOSITORY, MAIN, {f"in/hand-{self.by_hand_left}": b"made"})
        self.oracle.by_hand[made.id] = set()

    def _conduct(self, what: str) -> None:
        if what == ABANDON[1]:
            self._abandon()
        elif what.startswith(HAND_OUT):
            step, _, body = what.removeprefix(HAND_OUT).partition(" ")
            self._hand_out(step, body)
        elif what.startswith(START):
            self._start(len(self._workflows), self._commit_named(what))
        elif what == "collect":
            self._collections += 1
            self.hub.start(Actor(f"gc{self._collections}", self.hub, self._collect))
        else:
            self.interventions_left -= 1
            intervention, _, about = what.rpartition(" ")
            if "." in about:
                self._change_task(intervention, self._row(about))
            else:
                self._change_workflow(intervention, self._workflows[int(about) - 1])
            self.oracle.taken_back(self._is_completed)

    def _change_task(self, intervention: str, row: TaskRow) -> None:
        match intervention:
            case "rerun":
                self.conductor.rerun(row.workflow_id, row.task_id)
            case "give up":
                self.conductor.expire(row.task_id)
            case "hand back":
                self.conductor.hand_back(self.conductor._polled(row).attempt)
            case "skip":
                self.conductor.tasks[row.task_id] = replace(row, status=TaskState.COMPLETED_WITH_ERRORS)
                with self.conductor._changed:
                    self.conductor._schedule(row.workflow_id, row.step + 1)
            case _:
                raise AssertionError(intervention)

    def _change_workflow(self, intervention: str, workflow: WorkflowId) -> None:
        changes = {
            "restart": self.conductor.restart,
            "pause": self.conductor.pause,
            "resume": self.conductor.resume,
            "terminate": self.conductor.terminate,
        }
        changes[intervention](workflow)

    def _row(self, step: str) -> TaskRow:
        """The latest attempt of a step."""
        return [row for row in self.conductor.tasks.values() if _step(row) == step][-1]

    def _is_completed(self, task_id: TaskId) -> bool:
        row = self.conductor.tasks.get(task_id)
        return row is not None and row.status == TaskState.COMPLETED

    def _abandon(self) -> None:
        """Publish as an attempt of another workflow that was terminated before the report."""
        kind = TaskType("abandoned")
        workflow = self.conductor.start([WorkflowStep(kind, "s1")])
        polled = self.conductor.poll(kind, WorkerId("w-0"), wait_seconds=0)
        assert polled is not None
        self.conductor.terminate(workflow)
        metadata = commit_labels.write(polled.attempt, staging_names.execution_id(0.0, bytes(8)), self.root, 0)
        self.lake.put(REPOSITORY, MAIN, ObjectPath("in/left"), b"behind")
        self.lake._commit_staged(REPOSITORY, MAIN, "left behind", metadata)

    def _commit_named(self, what: str) -> CommitId:
        if what.endswith(FROM_FIRST):
            return self.root
        below = self.oracle.commit(self.oracle.head).first_parent
        return self.oracle.head if what.endswith(FROM_HEAD) or below is None else below

    def _start(self, number: int, ref: CommitId) -> None:
        shape = self.setting.workflows[number]
        first = workspace_input(WorkspaceRef(REPOSITORY, MAIN, ref))

        def given(step: int) -> Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, Any]]:
            earlier = [_reference(before) for before in reversed(range(step))] if shape.is_chained and step >= shape.lanes else []
            return lambda outputs: next(({**outputs[name], "params": {}} for name in earlier if outputs.get(name)), first)

        steps = [WorkflowStep(_task_type(number, step), _reference(step), given(step)) for step in range(shape.steps)]
        self._workflows[number] = self.conductor.start(steps, lanes=shape.lanes)

    # workers

    def _hand_out(self, step: str, body: str) -> None:
        row = self._row(step)
        polled = self.conductor.poll(row.task_type, WorkerId(f"w-{next(self._nonces)}"), wait_seconds=0)
        assert polled is not None
        number = len(self.workers) + 1
        execution = staging_names.execution_id(0.0, number.to_bytes(8))
        worker = Worker(f"w{number}", polled, body, _place(row), execution)
        self.workers[worker.name] = self._by_execution[worker.execution] = worker
        actor = Actor(worker.name, self.hub, lambda actor: self._work(worker, actor))
        worker.faults = actor.faults
        self.hub.start(actor)

    def _work(self, worker: Worker, actor: Actor) -> None:
        net = self.rules.lake(actor, self.lake)
        if not self.rules.checks_early:
            net.branch = lambda repository, branch: worker.source.ref
        lake = cast("Lake", net)
        conductor = self.rules.conductor(actor, self.conductor, lambda outcome: self._take(worker, outcome))
        workspace = ports.BranchWorkspace if worker.body.endswith(ON_BRANCH) else ports.NetWorkspace
        execution = Execution(
            worker.attempt,
            worker.execution,
            DictTask(worker.run),
            lake,
            self.rules.fence(worker, conductor),
            lambda ref: workspace(net, lake, ref, PREFIX),
            clock=lambda: 0.0,
            unlabelled=self.setting.unlabelled,
        )
        if self.rules.overlaps:
            execution = replace(execution, begin=_at_once, received_at=0.0, conclude=lambda _, ended: conclude(ended))
        delivered: list[reporting.Delivery] = []

        def deliver(outcome: Outcome, *, checked: bool) -> None:
            worker.outcome = outcome
            delivered.append(_deliver(cast("Conductor", conductor), worker.attempt, outcome, checked=checked))

        def conclude(completed: Outcome) -> Outcome:
            deliver(completed, checked=True)
            return completed

        outcome = transaction.run(execution, worker.polled.input)
        if not delivered:
            deliver(outcome, checked=False)
        delivery = delivered[0]
        if isinstance(delivery, reporting.Superseded) and delivery.accepted is not None and self.rules.restores:
            self._restore(worker, delivery.accepted, lake, cast("Conductor", conductor))
        worker.has_ended = True

    def _restore(self, worker: Worker, accepted: CommitId, lake: Lake, conductor: Conductor) -> None:
        """Do what the supervisor does after a superseded report."""
        running: Any = SimpleNamespace(
            attempt=worker.attempt,
            execution_id=worker.execution,
            workspace=worker.source,
            facts=SimpleNamespace(publish_seconds=1.0),
        )
        try:
            restore_accepted.restore(running, accepted, lake, conductor)
        except PeragoError:  # the supervisor logs it
            worker.is_restored = False

    def _take(self, worker: Worker, outcome: Outcome) -> None:
        """Accept the result of the current execution; a late result only if the setting allows it."""
        row = self.conductor.tasks.get(worker.attempt.task_id)
        if row is None or row.status not in UNFINISHED_TASK:
            return
        if self.conductor.workflow_status(row.workflow_id) not in ACTIVE_WORKFLOW:
            return
        is_late = not fence.is_current(worker.attempt, self.conductor.task(row.task_id))
        if is_late and not self.setting.takes_late_reports:
            return
        if outcome.status is TaskStatus.COMPLETED:
            shown: Any = (outcome.output or {})["workspace"]
            self.oracle.accepted(worker, CommitId(shown["ref"]), is_late=is_late)
        self.conductor.report(worker.attempt, outcome, timeout=1)

    # garbage collection

    def _collect(self, actor: Actor) -> None:
        lake = cast("Lake", ports.NetLake(actor, self.lake))
        conductor = cast("Conductor", ports.NetConductor(actor, self.conductor, lambda _outcome: None))
        with contextlib.suppress(PeragoError):  # an error ends the command
            found = staging_gc.find(lake, conductor, REPOSITORY, now=0.0, older_than=1e9)
            list(branch_gc.delete(lake, REPOSITORY, found))

    def finish(self) -> None:
        """End the schedule: crash all actors, let all requests finish, collect garbage, and check the final state."""
        if not self.hub.actors and not self.hub.requests:
            if not any(worker.faults for worker in self.workers.values()):
                self.oracle.settled(is_calm=self.setting.is_calm and not self.starts() and not self.hand_outs())
            elif self.setting.is_single_step and all(worker.is_sound for worker in self.workers.values()):
                self.oracle.restored()
        self.hub.crash_all()
        self.hub.drain()
        self.oracle.step("a request")
        self.collect()
        self.oracle.collected(lambda name: not self._is_awaited(name))
        for workflow in self._workflows.values():
            self.conductor.terminate(workflow)
        self.collect()
        self.oracle.collected(lambda _name: True)

    def collect(self) -> None:
        found = staging_gc.find(self.lake, self.conductor, REPOSITORY, now=0.0, older_than=1e9)
        list(branch_gc.delete(self.lake, REPOSITORY, found))

    def _is_awaited(self, name: staging_names.StagingName) -> bool:
        return any(row.task_id == name.task_id for row in self._unfinished())


def _reference(step: int) -> str:
    return f"s{step + 1}"


def _task_type(number: int, step: int) -> TaskType:
    """A separate task type for each step, so that any scheduled task can be polled next."""
    return TaskType(f"{number + 1}.{step + 1}")


def _at_once(work: Callable[[], T], /) -> overlap.Begun[T]:
    """Do the work at once, before everything that its result is not needed for."""
    try:
        found = work()
    except PeragoError as error:
        return overlap.Begun(functools.partial(_raise, error), lambda: None)
    return overlap.Begun(lambda: found, lambda: None)


def _raise(error: PeragoError) -> NoReturn:
    raise error


def _deliver(conductor: Conductor, attempt: Attempt, outcome: Outcome, *, checked: bool) -> reporting.Delivery:
    ticks = itertools.count()
    return reporting.deliver(
        conductor,
        attempt,
        outcome,
        deadline=_DELIVERY_TICKS,
        request_timeout=1,
        checked=checked,
        clock=lambda: float(next(ticks)),
        sleep=lambda _seconds: None,
    )


def _step(row: TaskRow) -> str:
    return row.task_type


def _place(row: TaskRow) -> tuple[int, int]:
    """Workflow and step, counted from 0."""
    number, _, step = row.task_type.partition(".")
    return int(number) - 1, int(step) - 1
