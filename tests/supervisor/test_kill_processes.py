"""SIGKILL of a process of the worker: the accepted result is the head, directly on its input, and nothing is left."""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import command_kill_matrix, kill_matrix, spark_kill_matrix
from tests.support.command_kill_matrix import CommandTask
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, command_kill_matrix.SELECTION, "executor"))
def test_executor_of_a_command_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", CommandTask()) as matrix:
        kill_matrix.kill_executor(matrix, phases)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phases", kill_matrix.row(PHASES, command_kill_matrix.SELECTION, "supervisor"))
def test_supervisor_of_a_command_is_killed(stack: Endpoints, tmp_path: Path, phases: Sequence[KillPhase]) -> None:
    with kill_matrix.prepare(stack, tmp_path / "harness", CommandTask(), response="3") as matrix:
        kill_matrix.kill_supervisor(matrix, phases)


def test_processes_of_a_command_are_killed(stack: Endpoints, tmp_path: Path) -> None:
    """The command and its guardian: the attempt fails and is retried, and the executor survives."""
    body = next(phase for phase in PHASES if phase.name == "body")
    with kill_matrix.prepare(stack, tmp_path / "harness", CommandTask()) as matrix:
        worker = matrix.worker()
        executors = worker.executors()
        cell = matrix.begin(body)
        for pid in command_kill_matrix.processes(matrix.harness.folder):
            with contextlib.suppress(ProcessLookupError):  # the command ends with its guardian
                os.kill(pid, signal.SIGKILL)
        matrix.harness.first_ended(cell.workflow)
        cell.gate.open()
        assert matrix.harness.ended(cell.workflow, within=kill_matrix.PATIENCE) == "COMPLETED"
        first, _ = matrix.harness.tasks(cell.workflow)
        assert first["reasonForIncompletion"] == "the command was killed by SIGKILL (9), and printed nothing [PG-315]"
        assert worker.executors() == executors
        cell.check_at_end(worker)
