"""A Spark task's executor is killed at every step, on real servers."""

from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.spark_kill_matrix import POINTS, SparkTask

from perago.dev.stack import Endpoints


@pytest.mark.timeout(900)
def test_sigkill_of_the_executor(stack: Endpoints, quick: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = kill_matrix.Row("the executor of a Spark task", POINTS, capsys)
    with kill_matrix.arena(stack, tmp_path / "rig", SparkTask(quick)) as place:
        kill_matrix.kill_executor(place, row)
    row.show()
