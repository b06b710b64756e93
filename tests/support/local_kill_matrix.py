"""The phases of an attempt with a local workspace, and the task of the kill matrix that runs them."""

from collections.abc import Mapping

from tests.support import kill_matrix
from tests.support.kill_matrix import IN_BODY, KillPhase, Process
from tests.support.worker_harness import GROW, Gate, Worker, WorkerHarness

from perago.model import Commit, CommitId, WorkflowId

PHASES = [
    KillPhase("download", Process.EXECUTOR, kill_matrix.OBJECTS, before_body=True),
    KillPhase("body"),
    KillPhase("before the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=IN_BODY),
    KillPhase("after the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, after=True, armed_by=IN_BODY),
    KillPhase("before the staging branch", Process.EXECUTOR, kill_matrix.BRANCH),
    KillPhase("during staging", Process.EXECUTOR, kill_matrix.UPLOAD),
    KillPhase("after the staging commit", Process.EXECUTOR, kill_matrix.COMMIT, after=True),
    KillPhase("before the second fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.UPLOAD),
    KillPhase("before publish", Process.EXECUTOR, kill_matrix.MERGE),
    KillPhase("after publish", Process.EXECUTOR, kill_matrix.MERGE, after=True),
    KillPhase("clean-up", Process.EXECUTOR, kill_matrix.STAGING_DELETION),
    KillPhase("before the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE),
    KillPhase("after the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE, after=True),
]
SELECTION = {
    "executor": ["download", "after the first fence", "after the staging commit", "after publish", "clean-up"],
    "supervisor": ["body", "before the staging branch", "before the second fence", "before the report"],
    "lakefs": ["before the first fence", "during staging", "before publish"],
    "conductor": ["after the report"],
}
"""Conductor, whose restart takes longest, is killed when a result is on its way to it."""


class LocalTask:
    """A task on the local disk that adds a line to a file. Implements `kill_matrix.TaskUnderTest`."""

    def seed(self, harness: WorkerHarness) -> None:
        harness.seed()

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker:
        return harness.start(GROW, jobs=1, **environ)

    def begin(self, harness: WorkerHarness, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        return harness.grow(base, line=line, gate=str(gate))

    def check_step(self, harness: WorkerHarness, base: CommitId, head: Commit, line: str) -> None:
        before = harness.site.content(base)
        assert harness.site.content(head.id) == {**before, "data/log.txt": before["data/log.txt"] + f"{line}\n".encode()}, line

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        """Nothing beside the workspaces, which are checked for every task."""
