"""Everything is killed at every step, on real servers: the accepted result is the head, directly on its input, nothing left."""

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.kill_matrix import IN_BODY, Point, Process, Row
from tests.support.worker import GROW, Gate, Rig, Worker

from perago.dev.stack import Endpoints, Options, Stack
from perago.model import Commit, CommitId, WorkflowId

POINTS = [
    Point("download", Process.EXECUTOR, kill_matrix.OBJECTS, before_body=True),
    Point("body"),
    Point("before the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=IN_BODY),
    Point("after the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, after=True, armed_by=IN_BODY),
    Point("before the staging branch", Process.EXECUTOR, kill_matrix.BRANCH),
    Point("during staging", Process.EXECUTOR, kill_matrix.UPLOAD),
    Point("after the staging commit", Process.EXECUTOR, kill_matrix.COMMIT, after=True),
    Point("before the second fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.COMMIT),
    Point("before publish", Process.EXECUTOR, kill_matrix.MERGE),
    Point("after publish", Process.EXECUTOR, kill_matrix.MERGE, after=True),
    Point("before the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE),
    Point("after the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE, after=True),
]


class LocalTask:
    """A task on the local disk that adds a line to a file. Implements `kill_matrix.Subject`."""

    @property
    def points(self) -> Sequence[Point]:
        return POINTS

    def seed(self, rig: Rig) -> None:
        rig.seed()

    def start(self, rig: Rig, environ: Mapping[str, str]) -> Worker:
        return rig.start(GROW, jobs=1, **environ)

    def begin(self, rig: Rig, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        return rig.grow(base, line=line, gate=str(gate))

    def check_step(self, rig: Rig, base: CommitId, head: Commit, line: str) -> None:
        before = rig.site.content(base)
        assert rig.site.content(head.id) == {**before, "data/log.txt": before["data/log.txt"] + f"{line}\n".encode()}, line

    def check_nothing_left(self, rig: Rig, worker: Worker) -> None:
        """Beside the workspaces, which every task's are looked for, there is nothing."""


@pytest.mark.timeout(300)
def test_sigkill_of_the_executor(stack: Endpoints, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("the executor", POINTS, capsys)
    with kill_matrix.arena(stack, tmp_path / "rig", LocalTask()) as place:
        kill_matrix.kill_executor(place, row)
    row.show()


@pytest.mark.timeout(600)
def test_sigkill_of_the_supervisor(stack: Endpoints, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("the supervisor", POINTS, capsys)
    with kill_matrix.arena(stack, tmp_path / "rig", LocalTask(), response="3") as place:
        kill_matrix.kill_supervisor(place, row)
    row.show()


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """Servers that may be killed."""
    with Stack(Options(tmp_path_factory.mktemp("stack"))) as started:
        yield started


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["lakefs", "conductor"])
def test_sigkill_of_a_server(own_stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str], victim: str) -> None:
    row = Row("lakeFS" if victim == "lakefs" else "Conductor", POINTS, capsys)
    server = own_stack.lakefs if victim == "lakefs" else own_stack.conductor
    with kill_matrix.arena(own_stack.endpoints, tmp_path / "rig", LocalTask(), response="240") as place:
        kill_matrix.kill_server(place, row, server)
    row.show()
