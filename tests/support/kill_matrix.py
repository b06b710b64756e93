"""A worker behind proxies whose attempt stands still at a named step while something is killed; what has to hold afterwards.

A proxy holds the request that marks the step. One whose sender is killed meanwhile is let through only after the retry has been
accepted, as a slow network would do it.
"""

import os
import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import pytest
from tests.support import worker as rigs
from tests.support.fault_proxy import Exchange, Fault, FaultProxy
from tests.support.worker import Gate, Rig, Worker, eventually

from perago.dev.server import Server
from perago.dev.stack import Endpoints
from perago.model import Commit, CommitId, WorkflowId

TASK_READ = r"GET /api/tasks/[0-9a-f-]{36}$"
TASK_UPDATE = r"POST /api/tasks(/update-v2)?$"
REPOSITORY = r"/api/v1/repositories/[^/]+"
MERGE = rf"\w+ {REPOSITORY}/refs/perago-staging[^/]*/merge/"
COMMIT = rf"POST {REPOSITORY}/branches/perago-staging[^/]*/commits"
UPLOAD = rf"\w+ {REPOSITORY}/branches/perago-staging[^/]*/objects"
BRANCH = rf"POST {REPOSITORY}/branches$"
OBJECTS = rf"GET {REPOSITORY}/refs/[^/]+/objects"
STAGED_OBJECTS = rf"GET {REPOSITORY}/refs/perago-staging[^/]*/objects"
IN_BODY = "the body has come to its gate"
PATIENCE = 120.0
"""On a machine that is busy with other tests, too."""


class Process(IntEnum):
    """Each takes those before it along when it is killed."""

    NONE = 0
    DRIVER = 1
    EXECUTOR = 2
    SUPERVISOR = 3


@dataclass(frozen=True)
class Point:
    """A step of the attempt: which request is held, whose it is, and on which side of the server. None: the body waits itself."""

    name: str
    sender: Process = Process.NONE
    pattern: str | None = None
    after: bool = False
    armed_by: str | None = None
    """Only from this request to lakeFS on (or `IN_BODY`), because the pattern also matches earlier ones."""
    before_body: bool = False


@dataclass
class Hold:
    """A request that waits, before the server sees it or before its reply is passed on."""

    after: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, exchange: Exchange) -> None:
        reply = exchange.forward() if self.after else None
        self.reached.set()
        while not self.released.is_set():
            # Raises where the proxy stops meanwhile.
            exchange.wait(0.05)
        try:
            exchange.client.send((reply or exchange.forward()).raw)
        finally:
            self.passed.set()


class Subject(Protocol):
    """The task whose attempts are hit."""

    @property
    def points(self) -> Sequence[Point]: ...

    def seed(self, rig: Rig) -> None: ...

    def start(self, rig: Rig, environ: Mapping[str, str]) -> Worker: ...

    def begin(self, rig: Rig, base: CommitId, line: str, gate: Gate) -> WorkflowId: ...

    def check_step(self, rig: Rig, base: CommitId, head: Commit, line: str) -> None:
        """The content of `head` is what one accepted attempt makes of `base`, and nothing else."""
        ...

    def check_nothing_left(self, rig: Rig, worker: Worker) -> None:
        """On this machine, beside what the idle worker needs."""
        ...


@dataclass
class Arena:
    """A worker behind proxies, and one workflow after the other."""

    rig: Rig
    subject: Subject
    conductor: FaultProxy
    lakefs: FaultProxy
    response: str = "60"

    def worker(self) -> Worker:
        environ = {"CONDUCTOR_SERVER_URL": self.conductor.url, "LAKECTL_SERVER_ENDPOINT_URL": self.lakefs.url}
        return self.subject.start(self.rig, {**environ, "E2E_RETRIES": "9", "E2E_RESPONSE": self.response})

    def begin(self, point: Point) -> "Cell":
        """A workflow that stands still at the point."""
        gate, hold = self.rig.gate(), Hold(point.after)
        cell = Cell(self, point, self.rig.head().id, gate, hold)
        if point.armed_by is None:
            self._arm(point, hold)
        elif point.armed_by != IN_BODY:
            self.lakefs.on(point.armed_by, self._arming(point, hold))
        cell.workflow = self.subject.begin(self.rig, cell.base, point.name, gate)
        if not point.before_body:
            gate.reached(PATIENCE)
        if point.armed_by == IN_BODY:
            self._arm(point, hold)
        if point.pattern is not None:
            gate.open()
            assert hold.reached.wait(PATIENCE), f"{point.name} was not reached"
        return cell

    def _arm(self, point: Point, hold: Hold) -> None:
        if point.pattern is not None:
            proxy = self.conductor if point.sender is Process.SUPERVISOR else self.lakefs
            proxy.on(point.pattern, hold)

    def _arming(self, point: Point, hold: Hold) -> Fault:
        def fault(exchange: Exchange) -> None:
            reply = exchange.forward()
            self._arm(point, hold)
            exchange.client.send(reply.raw)

        return fault


@dataclass
class Cell:
    arena: Arena
    point: Point
    base: CommitId
    gate: Gate
    hold: Hold
    workflow: WorkflowId = WorkflowId("")  # noqa: RUF009  an id is a str

    def release_what_outlives(self, killed: Process) -> None:
        """The next body passes the same gate; a request goes on whose sender lives."""
        if self.point.pattern is None:
            self.gate.open()
        elif self.point.sender > killed:
            self.hold.released.set()

    def check(self) -> None:
        """What has to hold once the workflow has completed."""
        rig, name = self.arena.rig, self.point.name
        head = rig.head()
        accepted = [task for task in rig.tasks(self.workflow) if task["status"] == "COMPLETED"]
        assert [task["outputData"]["workspace"]["ref"] for task in accepted] == [head.id], name
        assert head.parents == (self.base,), name
        assert not list(rig.site.lake.uncommitted(rig.site.repository, rigs.MAIN)), name
        self.arena.subject.check_step(rig, self.base, head, name)

    def check_after_all(self, worker: Worker) -> None:
        """Also when the last request of the dead has come through."""
        self.check()
        if self.point.pattern is not None:
            self.hold.released.set()
            assert self.hold.passed.wait(PATIENCE), self.point.name
        if self.point.pattern == BRANCH and not self.point.after:
            # A branch that is made after its owner's death, and after the retry's: only the collector can still find it.
            self.arena.rig.collect_garbage()
        self.check_nothing_left(worker)
        self.check()

    def check_nothing_left(self, worker: Worker) -> None:
        rig, name = self.arena.rig, self.point.name
        eventually(lambda: not rig.staging_branches(), within=20, what=f"{name}: the end of the staging branches")
        eventually(lambda: not rig.left_workspaces(), within=20, what=f"{name}: the end of the workspaces")
        self.arena.subject.check_nothing_left(rig, worker)


@contextmanager
def arena(stack: Endpoints, folder: Path, subject: Subject, response: str = "60") -> Generator[Arena]:
    with ExitStack() as things:
        rig = things.enter_context(rigs.rig(stack, folder))
        conductor = things.enter_context(FaultProxy(stack.conductor_url))
        lakefs = things.enter_context(FaultProxy(stack.lakefs_url))
        subject.seed(rig)
        yield Arena(rig, subject, conductor, lakefs, response)


@dataclass
class Row:
    """The printed line of one victim."""

    victim: str
    points: Sequence[Point]
    capsys: pytest.CaptureFixture[str]
    cells: list[str] = field(default_factory=list[str])

    def green(self, point: Point) -> None:
        self.cells.append(point.name)

    def show(self) -> None:
        with self.capsys.disabled():
            print(f"\nSIGKILL of {self.victim}: " + ", ".join(f"{cell} ok" for cell in self.cells))  # noqa: T201
        assert self.cells == [point.name for point in self.points]


# one victim at every point


def kill_executor(place: Arena, row: Row) -> None:
    worker = place.worker()
    for point in place.subject.points:
        cell = place.begin(point)
        (executor,) = worker.executors()
        os.kill(executor, signal.SIGKILL)
        cell.release_what_outlives(Process.EXECUTOR)
        eventually(lambda executor=executor: executor not in worker.executors() and worker.executors(), within=PATIENCE)
        assert place.rig.ended(cell.workflow, within=PATIENCE) == "COMPLETED", point.name
        cell.check_after_all(worker)
        row.green(point)


def kill_supervisor(place: Arena, row: Row) -> None:
    worker = place.worker()
    for point in place.subject.points:
        cell = place.begin(point)
        worker.kill()
        eventually(lambda worker=worker: not worker.survivors(), within=20, what=f"{point.name}: the end of the processes")
        cell.release_what_outlives(Process.SUPERVISOR)
        worker = place.worker()
        assert ended_after_timeout(place.rig, cell.workflow) == "COMPLETED", point.name
        cell.check_after_all(worker)
        row.green(point)


def kill_server(place: Arena, row: Row, server: Server) -> None:
    worker = place.worker()
    for point in place.subject.points:
        cell = place.begin(point)
        server.kill()
        server.start()
        cell.release_what_outlives(Process.NONE)
        assert place.rig.ended(cell.workflow, within=PATIENCE) == "COMPLETED", point.name
        cell.check_after_all(worker)
        row.green(point)
    assert worker.stop() == 0


def ended_after_timeout(rig: Rig, workflow: WorkflowId) -> str:
    """Conductor looks at timeouts late; an operator may ask it to look now."""

    def final() -> str:
        rig.real.call("PUT", f"/workflow/decide/{workflow}")
        status = rig.real.workflow_status(workflow)
        return "" if status == "RUNNING" else status

    return eventually(final, within=PATIENCE, what="the workflow's end")
