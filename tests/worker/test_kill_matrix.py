"""Everything is killed at every step, on real servers: the accepted result is the head, directly on its input, nothing is left.

A proxy holds the request that marks the step while the victim is killed with SIGKILL. Where the dead executor's own request was
held, it is let through only after the retry has been accepted, as a slow network would do it.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.faults.proxy import Exchange, Fault, FaultProxy
from tests.worker import rig as rigs
from tests.worker.rig import GROW, Rig, Worker, eventually

from perago.dev.stack import Endpoints, Options, Stack
from perago.model import CommitId, WorkflowId

TASK_READ = r"GET /api/tasks/[0-9a-f-]{36}$"
TASK_UPDATE = r"POST /api/tasks$"
MERGE = r"\w+ /api/v1/repositories/[^/]+/refs/perago-staging[^/]*/merge/"
COMMIT = r"POST /api/v1/repositories/[^/]+/branches/perago-staging[^/]*/commits"
UPLOAD = r"\w+ /api/v1/repositories/[^/]+/branches/perago-staging[^/]*/objects"
BRANCH = r"POST /api/v1/repositories/[^/]+/branches$"
OBJECTS = r"GET /api/v1/repositories/[^/]+/refs/[^/]+/objects"


@dataclass
class Hold:
    """A request that waits, before the server sees it or before its reply is passed on."""

    after: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def __call__(self, exchange: Exchange) -> None:
        reply = exchange.forward() if self.after else None
        self.reached.set()
        while not self.released.is_set():
            # Raises where the proxy stops meanwhile.
            exchange.wait(0.05)
        exchange.client.send((reply or exchange.forward()).raw)


@dataclass(frozen=True)
class Point:
    """A step of the attempt: whose request is held, which, and on which side of the server."""

    name: str
    server: str
    pattern: str
    after: bool = False
    armed_by: str | None = None
    """Only from this request to lakeFS on, because the pattern also matches earlier ones."""


POINTS = [
    Point("download", "lakefs", OBJECTS),
    Point("body", "body", ""),
    Point("before the first fence", "conductor", TASK_READ, armed_by="body"),
    Point("after the first fence", "conductor", TASK_READ, after=True, armed_by="body"),
    Point("before the staging branch", "lakefs", BRANCH),
    Point("during staging", "lakefs", UPLOAD),
    Point("after the staging commit", "lakefs", COMMIT, after=True),
    Point("before the second fence", "conductor", TASK_READ, armed_by=COMMIT),
    Point("before publish", "lakefs", MERGE),
    Point("after publish", "lakefs", MERGE, after=True),
    Point("before the report", "conductor", TASK_UPDATE),
    Point("after the report", "conductor", TASK_UPDATE, after=True),
]


@dataclass
class Arena:
    """A worker behind proxies, and one workflow after the other."""

    rig: Rig
    conductor: FaultProxy
    lakefs: FaultProxy
    retries: str = "9"
    response: str = "60"

    def worker(self) -> Worker:
        return self.rig.start(
            GROW,
            CONDUCTOR_SERVER_URL=self.conductor.url,
            LAKECTL_SERVER_ENDPOINT_URL=self.lakefs.url,
            E2E_RETRIES=self.retries,
            E2E_RESPONSE=self.response,
        )

    def begin(self, point: Point) -> "Cell":
        """A workflow that stands still at the point."""
        base = self.rig.head().id
        cell = Cell(self.rig, point, base, self.rig.log_at(base), Hold(point.after))
        gate = self.rig.gate()
        if point.armed_by is None and point.server != "body":
            self._proxy(point).on(point.pattern, cell.hold)
        if point.armed_by not in {None, "body"}:
            self.lakefs.on(point.armed_by or "", self._arming(point, cell.hold))
        cell.workflow = self.rig.grow(base, line=point.name, gate=str(gate))
        if point.name != "download":
            gate.reached()
        if point.server == "body":
            cell.release = gate.open
            return cell
        if point.armed_by == "body":
            self.conductor.on(point.pattern, cell.hold)
        gate.open()
        assert cell.hold.reached.wait(30), f"{point.name} was not reached"
        cell.release = cell.hold.released.set
        return cell

    def _proxy(self, point: Point) -> FaultProxy:
        return self.lakefs if point.server == "lakefs" else self.conductor

    def _arming(self, point: Point, hold: Hold) -> Fault:
        def fault(exchange: Exchange) -> None:
            reply = exchange.forward()
            self.conductor.on(point.pattern, hold)
            exchange.client.send(reply.raw)

        return fault


NONE_YET = WorkflowId("")


@dataclass
class Cell:
    rig: Rig
    point: Point
    base: CommitId
    before: str
    hold: Hold
    workflow: WorkflowId = NONE_YET
    release: Callable[[], object] = lambda: None

    def check(self) -> None:
        """What has to hold once the workflow has completed."""
        head = self.rig.head()
        accepted = [task for task in self.rig.tasks(self.workflow) if task["status"] == "COMPLETED"]
        assert [task["outputData"]["workspace"]["ref"] for task in accepted] == [head.id], self.point.name
        assert head.parents == (self.base,), self.point.name
        assert self.rig.log_at(head.id) == f"{self.before}{self.point.name}\n", self.point.name

    def check_nothing_left(self) -> None:
        eventually(lambda: not self.rig.staging_branches(), within=10, what=f"{self.point.name}: the end of the staging branches")
        eventually(lambda: not self.rig.left_workspaces(), within=10, what=f"{self.point.name}: the end of the workspaces")


@contextmanager
def arena(stack: Endpoints, folder: Path, **options: str) -> Generator[Arena]:
    with ExitStack() as things:
        rig = things.enter_context(rigs.rig(stack, folder))
        conductor = things.enter_context(FaultProxy(stack.conductor_url))
        lakefs = things.enter_context(FaultProxy(stack.lakefs_url))
        rig.seed()
        yield Arena(rig, conductor, lakefs, **options)


@dataclass
class Row:
    """The printed line of one victim."""

    victim: str
    capsys: pytest.CaptureFixture[str]
    cells: list[str] = field(default_factory=list[str])

    def green(self, point: Point) -> None:
        self.cells.append(point.name)

    def show(self) -> None:
        with self.capsys.disabled():
            print(f"\nSIGKILL of {self.victim}: " + ", ".join(f"{cell} ok" for cell in self.cells))  # noqa: T201


@pytest.mark.timeout(300)
def test_sigkill_of_the_executor(stack: Endpoints, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("the executor", capsys)
    with arena(stack, tmp_path / "rig") as place:
        worker = place.worker()
        for point in POINTS:
            cell = place.begin(point)
            (executor,) = worker.executors()
            os.kill(executor, signal.SIGKILL)
            if point.server != "lakefs":
                # The request is the supervisor's, which lives and goes on with it; and the next body passes the same gate.
                cell.release()
            eventually(lambda executor=executor: executor not in worker.executors() and worker.executors())
            assert place.rig.ended(cell.workflow) == "COMPLETED", point.name
            cell.check()
            cell.release()
            cell.check_nothing_left()
            cell.check()
            row.green(point)
    row.show()
    assert len(row.cells) == len(POINTS)


@pytest.mark.timeout(600)
def test_sigkill_of_the_supervisor(stack: Endpoints, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("the supervisor", capsys)
    with arena(stack, tmp_path / "rig", response="3") as place:
        worker = place.worker()
        for point in POINTS:
            cell = place.begin(point)
            worker.kill()
            eventually(lambda worker=worker: not worker.survivors(), within=5)
            if point.server == "body":
                cell.release()
            worker = place.worker()
            assert ended_after_timeout(place.rig, cell.workflow) == "COMPLETED", point.name
            cell.check()
            cell.release()
            cell.check_nothing_left()
            cell.check()
            row.green(point)
    row.show()
    assert len(row.cells) == len(POINTS)


def ended_after_timeout(rig: Rig, workflow: WorkflowId) -> str:
    """Conductor looks at timeouts late; an operator may ask it to look now."""

    def final() -> str:
        rig.real.call("PUT", f"/workflow/decide/{workflow}")
        status = rig.real.workflow_status(workflow)
        return "" if status == "RUNNING" else status

    return eventually(final, within=60, what="the workflow's end")


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """Servers that may be killed."""
    with Stack(Options(tmp_path_factory.mktemp("stack"))) as started:
        yield started


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["lakefs", "conductor"])
def test_sigkill_of_a_server(own_stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str], victim: str) -> None:
    row = Row("lakeFS" if victim == "lakefs" else "Conductor", capsys)
    server = own_stack.lakefs if victim == "lakefs" else own_stack.conductor
    with arena(own_stack.endpoints, tmp_path / "rig", response="240") as place:
        worker = place.worker()
        for point in POINTS:
            cell = place.begin(point)
            server.kill()
            server.start()
            cell.release()
            assert place.rig.ended(cell.workflow, within=120) == "COMPLETED", point.name
            cell.check()
            cell.check_nothing_left()
            row.green(point)
        assert worker.stop() == 0
    row.show()
    assert len(row.cells) == len(POINTS)
