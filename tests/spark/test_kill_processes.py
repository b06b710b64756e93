"""SIGKILL of the driver, the executor or the supervisor of a Spark task, on real servers."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.kill_matrix import KillPhase
from tests.support.spark_kill_matrix import PHASES, VICTIMS, SparkTask, kill_driver

from perago.dev.stack import Endpoints


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, VICTIMS, "driver"))
def test_driver_is_killed(stack: Endpoints, quick_java: str, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask(quick_java)) as matrix:
        kill_driver(matrix, phases)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, VICTIMS, "executor"))
def test_executor_is_killed(stack: Endpoints, quick_java: str, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask(quick_java)) as matrix:
        kill_matrix.kill_executor(matrix, phases)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, VICTIMS, "supervisor"))
def test_supervisor_is_killed(stack: Endpoints, quick_java: str, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask(quick_java), response="5") as matrix:
        kill_matrix.kill_supervisor(matrix, phases)
