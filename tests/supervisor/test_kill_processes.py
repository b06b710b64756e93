"""SIGKILL of the executor or the supervisor: the accepted result is the head, directly on its input, and nothing is left."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix, spark_kill_matrix
from tests.support.kill_matrix import KillPhase
from tests.support.local_kill_matrix import PHASES, SELECTION, LocalTask

from perago.dev.stack import Endpoints


def test_selections_contain_every_phase_of_their_own_and_every_victim() -> None:
    local, spark = SELECTION, spark_kill_matrix.SELECTION
    assert set(local) == {"executor", "supervisor", "lakefs", "conductor"}
    assert set(spark) == {"driver", "executor", "supervisor", "lakefs"}
    for selection, phases in ((local, PHASES), (spark, spark_kill_matrix.PHASES)):
        selected = [name for names in selection.values() for name in names]
        assert sorted(selected) == sorted(phase.name for phase in phases if not phase.as_in_local_task)


def test_phases_that_spark_leaves_to_the_local_task_are_phases_of_it() -> None:
    """By the request that is held, because the names of the fences differ."""
    left = {(phase.pattern, phase.after) for phase in spark_kill_matrix.PHASES if phase.as_in_local_task}
    assert left
    assert left <= {(phase.pattern, phase.after) for phase in PHASES}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, SELECTION, "executor"))
def test_executor_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", LocalTask()) as matrix:
        kill_matrix.kill_executor(matrix, phases)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, SELECTION, "supervisor"))
def test_supervisor_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", LocalTask(), response="3") as matrix:
        kill_matrix.kill_supervisor(matrix, phases)
