"""SIGKILL of lakeFS or Conductor: the accepted result is the head, directly on its input, and nothing is left."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.kill_matrix import KillPhase
from tests.support.local_kill_matrix import PHASES, VICTIMS, LocalTask

from perago.dev.stack import Stack


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, VICTIMS, "lakefs"))
def test_lakefs_is_killed(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", LocalTask(), response="240") as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.lakefs)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, VICTIMS, "conductor"))
def test_conductor_is_killed(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", LocalTask(), response="240") as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.conductor)
