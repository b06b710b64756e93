"""lakeFS is killed at every step of a Spark task."""

from pathlib import Path

import pytest
from tests.support import kill_matrix
from tests.support.spark_kill_matrix import POINTS, SparkTask

from perago.dev.stack import Options, Stack
from perago.spark.runtime import Runtime


@pytest.mark.timeout(900)
def test_sigkill_of_lakefs(installed: None, needed: Runtime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = kill_matrix.Row("lakeFS under a Spark task", POINTS, capsys)
    with (
        Stack(Options(tmp_path / "stack")) as stack,
        kill_matrix.arena(stack.endpoints, tmp_path / "rig", SparkTask(), response="240") as place,
    ):
        kill_matrix.kill_server(place, row, stack.lakefs)
    row.show()
