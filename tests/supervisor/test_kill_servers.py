"""SIGKILL of lakeFS or Conductor: the accepted result is the head, directly on its input, and nothing is left."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import kill_matrix, local_kill_matrix, spark_kill_matrix
from tests.support.kill_matrix import KillPhase

from perago.dev.stack import Stack

LOCAL = (local_kill_matrix.PHASES, local_kill_matrix.SELECTION)
SPARK = (spark_kill_matrix.PHASES, spark_kill_matrix.SELECTION)
pytestmark = pytest.mark.timeout(900)
SECONDS_TO_RESPOND = "240"
"""Longer than a server takes to start again."""


@pytest.mark.parametrize("phases", kill_matrix.row(*LOCAL, "lakefs"))
def test_lakefs_is_killed(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    task = local_kill_matrix.LocalTask()
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", task, SECONDS_TO_RESPOND) as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.lakefs)


@pytest.mark.parametrize("phases", kill_matrix.row(*LOCAL, "conductor"))
def test_conductor_is_killed(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    task = local_kill_matrix.LocalTask()
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", task, SECONDS_TO_RESPOND) as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.conductor)


@pytest.mark.parametrize("phases", kill_matrix.row(*SPARK, "lakefs"))
@pytest.mark.usefixtures("spark_runtime")
def test_lakefs_is_killed_under_spark(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    task = spark_kill_matrix.SparkTask()
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", task, SECONDS_TO_RESPOND) as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.lakefs)


@pytest.mark.parametrize("phases", kill_matrix.row(*SPARK, "conductor"))
@pytest.mark.usefixtures("spark_runtime")
def test_conductor_is_killed_under_spark(own_stack: Stack, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    task = spark_kill_matrix.SparkTask()
    with kill_matrix.prepare(own_stack.endpoints, tmp_path / "harness", task, SECONDS_TO_RESPOND) as matrix:
        kill_matrix.kill_server(matrix, phases, own_stack.conductor)
