"""SIGKILL while a data check runs: nothing is published and nothing is left; the retry is checked again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.kill_matrix import IN_BODY, KillMatrix, KillPhase, Process
from tests.support.worker_harness import Gate, Worker, WorkerHarness

from perago.dev.stack import Endpoints
from perago.model import Commit, CommitId, WorkflowId

CHECKED = "tests.support.tasks.checked"
COMMIT_READ = rf"GET {kill_matrix.REPOSITORY}/commits/"
PHASES = [KillPhase("data check", Process.EXECUTOR, COMMIT_READ, armed_by=IN_BODY)]
"""The check reads the input commit first, after the body and before anything is uploaded."""


class CheckedTask:
    """Implements `kill_matrix.TaskUnderTest`."""

    def seed(self, harness: WorkerHarness) -> None:
        harness.seed()

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker:
        return harness.start(CHECKED, jobs=1, **environ)

    def begin(self, harness: WorkerHarness, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        step = harness.step(CHECKED, "it", {"line": line, "gate": str(gate)}, harness.workspace(base))
        return harness.real.start_workflow([step])

    def check_step(self, harness: WorkerHarness, base: CommitId, head: Commit, line: str) -> None:
        before = harness.site.content(base)
        table = before.get("data/lines.csv", b"line\n") + f"{line}\n".encode()
        assert harness.site.content(head.id) == {**before, "data/lines.csv": table}
        assert '"rows":' in head.metadata["perago.table.data/lines.csv"]

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        """Nothing beside the workspaces, which hold the temporary files of DuckDB too."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kill", "response"),
    [
        (kill_matrix.kill_executor, "60"),
        pytest.param(kill_matrix.kill_supervisor, "3", marks=pytest.mark.chaos),
    ],
)
def test_killed_while_a_data_check_runs(
    stack: Endpoints, tmp_path: Path, kill: Callable[[KillMatrix, Sequence[KillPhase]], None], response: str
) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", CheckedTask(), response) as matrix:
        kill(matrix, PHASES)
