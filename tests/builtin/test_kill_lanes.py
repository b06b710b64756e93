"""SIGKILL of a worker that runs a fork or a join: one commit with all lanes, directly on its input, and no branch is left."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix, lanes_kill_matrix
from tests.support.kill_matrix import KillPhase
from tests.support.lanes_kill_matrix import Lanes

from perago.dev.stack import Endpoints


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", lanes_kill_matrix.kill_row())
def test_executor_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", Lanes()) as matrix:
        kill_matrix.kill_executor(matrix, phases)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_supervisor_is_killed(stack: Endpoints, tmp_path: Path) -> None:
    """Conductor notices it after the response timeout of the built-in tasks, which is a minute."""
    with kill_matrix.prepare(stack, tmp_path / "harness", Lanes()) as matrix:
        kill_matrix.kill_supervisor(matrix, lanes_kill_matrix.PHASES)
