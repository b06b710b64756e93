"""SIGKILL of the driver, the executor or the supervisor of a Spark task, on real servers."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.kill_matrix import KillPhase
from tests.support.spark_kill_matrix import PHASES, SELECTION, SparkTask, kill_driver

from perago.dev.stack import Endpoints

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark_runtime")]


@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, SELECTION, "driver"))
def test_driver_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask()) as matrix:
        kill_driver(matrix, phases)


@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, SELECTION, "executor"))
def test_executor_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask()) as matrix:
        kill_matrix.kill_executor(matrix, phases)


@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, SELECTION, "supervisor"))
def test_supervisor_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", SparkTask(), response="5") as matrix:
        kill_matrix.kill_supervisor(matrix, phases)
