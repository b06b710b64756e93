"""The phases of an attempt with a local workspace, and the task of the kill matrix that runs them."""

from collections.abc import Mapping

from tests.support import kill_matrix
from tests.support.kill_matrix import IN_BODY, Phase, Process
from tests.support.worker import GROW, Gate, Rig, Worker

from perago.model import Commit, CommitId, WorkflowId

VICTIMS = ("executor", "supervisor", "lakefs", "conductor")
PHASES = [
    Phase("download", Process.EXECUTOR, kill_matrix.OBJECTS, before_body=True),
    Phase("body"),
    Phase("before the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=IN_BODY),
    Phase("after the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, after=True, armed_by=IN_BODY),
    Phase("before the staging branch", Process.EXECUTOR, kill_matrix.BRANCH),
    Phase("during staging", Process.EXECUTOR, kill_matrix.UPLOAD),
    Phase("after the staging commit", Process.EXECUTOR, kill_matrix.COMMIT, after=True),
    Phase("before the second fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.COMMIT),
    Phase("before publish", Process.EXECUTOR, kill_matrix.MERGE),
    Phase("after publish", Process.EXECUTOR, kill_matrix.MERGE, after=True),
    Phase("before the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE),
    Phase("after the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE, after=True),
]


class LocalTask:
    """A task on the local disk that adds a line to a file. Implements `kill_matrix.TaskUnderTest`."""

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
        """Nothing beside the workspaces, which are checked for every task."""
