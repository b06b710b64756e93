"""The kill matrix: an attempt is stopped at a phase, a victim is killed with SIGKILL, and the invariants are checked afterwards.

A proxy holds the request that marks the phase. If its sender is killed meanwhile, the request is forwarded only after the retry
has been accepted, as on a slow network. The full matrix (every phase with every victim) belongs to `make chaos`; `make test` runs
a selection of it that contains every phase and every victim.
"""

import os
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import pytest
from _pytest.mark import ParameterSet
from tests.support import worker_harness
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, HeldRequest
from tests.support.waiting import eventually
from tests.support.worker_harness import Gate, Worker, WorkerHarness

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
STAGING_DELETION = rf"DELETE {REPOSITORY}/branches/perago-staging[^/]*$"
OBJECTS = rf"GET {REPOSITORY}/refs/[^/]+/objects"
STAGED_OBJECTS = rf"GET {REPOSITORY}/refs/perago-staging[^/]*/objects"
IN_BODY = "the body waits at its gate"
PATIENCE = 120.0
"""Seconds that one step may take on a machine that is busy with other tests."""


class Process(IntEnum):
    """Killing one also ends those with a lower number."""

    NONE = 0
    DRIVER = 1
    EXECUTOR = 2
    SUPERVISOR = 3


@dataclass(frozen=True)
class KillPhase:
    """A step of the attempt: the request that is held, its sender, and whether the server has acted by then.

    Without a pattern no request is held; the body waits at its gate.
    """

    name: str
    sender: Process = Process.NONE
    pattern: str | None = None
    after: bool = False
    armed_by: str | None = None
    """HeldRequest only after this request to lakeFS (or `IN_BODY`), because the pattern also matches earlier requests."""
    before_body: bool = False
    as_in_local_task: bool = False
    """The same code runs in this phase of a task on the local disk, whose selection contains it."""


class TaskUnderTest(Protocol):
    """The task whose attempts are interrupted."""

    def seed(self, harness: WorkerHarness) -> None: ...

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker: ...

    def begin(self, harness: WorkerHarness, base: CommitId, line: str, gate: Gate) -> WorkflowId: ...

    def check_step(self, harness: WorkerHarness, base: CommitId, head: Commit, line: str) -> None:
        """The content of `head` is what one accepted attempt makes of `base`, and nothing else."""
        ...

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        """Nothing on this machine but what an idle worker needs."""
        ...


@dataclass
class KillMatrix:
    """A worker behind proxies that runs one workflow after the other."""

    harness: WorkerHarness
    task: TaskUnderTest
    conductor: FaultProxy
    lakefs: FaultProxy
    response: str = "60"

    def worker(self) -> Worker:
        environ = {"CONDUCTOR_SERVER_URL": self.conductor.url, "LAKECTL_SERVER_ENDPOINT_URL": self.lakefs.url}
        return self.task.start(self.harness, {**environ, "E2E_RETRIES": "9", "E2E_RESPONSE": self.response})

    def begin(self, phase: KillPhase) -> "Cell":
        """A workflow whose attempt is stopped at the phase."""
        gate, hold = self.harness.gate(), HeldRequest(phase.after)
        cell = Cell(self, phase, self.harness.head().id, gate, hold)
        if phase.armed_by is None:
            self._arm(phase, hold)
        elif phase.armed_by != IN_BODY:
            self.lakefs.on(phase.armed_by, self._arming(phase, hold))
        cell.workflow = self.task.begin(self.harness, cell.base, phase.name, gate)
        if not phase.before_body:
            gate.reached(PATIENCE)
        if phase.armed_by == IN_BODY:
            self._arm(phase, hold)
        if phase.pattern is not None:
            gate.open()
            assert hold.reached.wait(PATIENCE), f"{phase.name} was not reached"
        return cell

    def _arm(self, phase: KillPhase, hold: HeldRequest) -> None:
        if phase.pattern is not None:
            proxy = self.conductor if phase.sender is Process.SUPERVISOR else self.lakefs
            proxy.on(phase.pattern, hold)

    def _arming(self, phase: KillPhase, hold: HeldRequest) -> Fault:
        def fault(exchange: Exchange) -> None:
            reply = exchange.forward()
            self._arm(phase, hold)
            exchange.client.send(reply.raw)

        return fault


@dataclass
class Cell:
    """One workflow of the matrix, stopped at a phase."""

    matrix: KillMatrix
    phase: KillPhase
    base: CommitId
    gate: Gate
    hold: HeldRequest
    workflow: WorkflowId = WorkflowId("")  # noqa: RUF009  an id is a str

    def release_survivors(self, killed: Process) -> None:
        """Open the gate for the next body, or forward the request if its sender is alive."""
        if self.phase.pattern is None:
            self.gate.open()
        elif self.phase.sender > killed:
            self.hold.released.set()

    def check(self) -> None:
        """The invariants of a completed workflow: the accepted result is the head, directly on its input."""
        harness, name = self.matrix.harness, self.phase.name
        head = harness.head()
        done = [task["outputData"].get("workspace") for task in harness.tasks(self.workflow) if task["status"] == "COMPLETED"]
        # The matrix of lanes has other steps too, which write elsewhere or nothing.
        accepted = [left["ref"] for left in done if left and left["branch"] == worker_harness.MAIN and left["ref"] != self.base]
        assert accepted == [head.id], name
        assert head.parents == (self.base,), name
        assert not list(harness.site.lake.uncommitted(harness.site.repository, worker_harness.MAIN)), name
        self.matrix.task.check_step(harness, self.base, head, name)

    def check_at_end(self, worker: Worker) -> None:
        """The invariants hold, also after the last request of a killed process has arrived."""
        self.check()
        if self.phase.pattern is not None:
            self.hold.released.set()
            assert self.hold.passed.wait(PATIENCE), self.phase.name
        if self.phase.pattern == BRANCH and not self.phase.after:
            # A branch that is created after its attempt and the retry have ended: only garbage collection can find it.
            self.matrix.harness.collect_garbage()
        self.check_nothing_left(worker)
        self.check()

    def check_nothing_left(self, worker: Worker) -> None:
        harness, name = self.matrix.harness, self.phase.name
        eventually(lambda: not harness.staging_branches(), within=20, what=f"{name}: the end of the staging branches")
        eventually(lambda: not harness.left_workspaces(), within=20, what=f"{name}: the end of the workspaces")
        self.matrix.task.check_nothing_left(harness, worker)


@contextmanager
def prepare(stack: Endpoints, folder: Path, task: TaskUnderTest, response: str = "60") -> Generator[KillMatrix]:
    with ExitStack() as things:
        harness = things.enter_context(worker_harness.open_harness(stack, folder))
        conductor = things.enter_context(FaultProxy(stack.conductor_url))
        lakefs = things.enter_context(FaultProxy(stack.lakefs_url))
        task.seed(harness)
        yield KillMatrix(harness, task, conductor, lakefs, response)


def row(phases: Sequence[KillPhase], selection: Mapping[str, Sequence[str]], victim: str) -> list[ParameterSet]:
    """Values of a test parameter: the phases selected for the victim, if any, and all phases for `make chaos`."""
    selected = [phase for phase in phases if phase.name in selection.get(victim, ())]
    part = [pytest.param(selected, id="selection")] if selected else []
    return [*part, pytest.param(list(phases), id="all", marks=pytest.mark.chaos)]


# one victim at each of the phases


def kill_executor(matrix: KillMatrix, phases: Sequence[KillPhase]) -> None:
    worker = matrix.worker()
    for phase in phases:
        cell = matrix.begin(phase)
        (executor,) = worker.executors()
        os.kill(executor, signal.SIGKILL)
        cell.release_survivors(Process.EXECUTOR)
        eventually(lambda executor=executor: executor not in worker.executors() and worker.executors(), within=PATIENCE)
        assert matrix.harness.ended(cell.workflow, within=PATIENCE) == "COMPLETED", phase.name
        cell.check_at_end(worker)


def kill_supervisor(matrix: KillMatrix, phases: Sequence[KillPhase]) -> None:
    worker = matrix.worker()
    for phase in phases:
        cell = matrix.begin(phase)
        worker.kill()
        eventually(lambda worker=worker: not worker.survivors(), within=20, what=f"{phase.name}: the end of the processes")
        cell.release_survivors(Process.SUPERVISOR)
        worker = matrix.worker()
        assert ended_after_timeout(matrix.harness, cell.workflow) == "COMPLETED", phase.name
        cell.check_at_end(worker)


def kill_server(matrix: KillMatrix, phases: Sequence[KillPhase], server: Server) -> None:
    worker = matrix.worker()
    for phase in phases:
        cell = matrix.begin(phase)
        server.kill()
        server.start()
        cell.release_survivors(Process.NONE)
        assert matrix.harness.ended(cell.workflow, within=PATIENCE) == "COMPLETED", phase.name
        cell.check_at_end(worker)
    assert worker.stop() == 0


def ended_after_timeout(harness: WorkerHarness, workflow: WorkflowId) -> str:
    """The final status; asks Conductor to evaluate timeouts now, because it does so late on its own."""

    def final() -> str:
        harness.real.call("PUT", f"/workflow/decide/{workflow}")
        status = harness.real.workflow_status(workflow)
        return "" if status == "RUNNING" else status

    return eventually(final, within=PATIENCE, what="the workflow's end")
