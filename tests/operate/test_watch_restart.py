"""`perago watch` while Conductor is killed and started again, on servers of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.conductor_sites import RealConductorSite, take

from perago.dev.stack import Stack
from perago.errors import TaskStatus
from perago.model import Outcome


@pytest.mark.timeout(600)
def test_a_restart_of_conductor_is_waited_for(own_stack: Stack, tmp_path: Path) -> None:
    real = RealConductorSite(own_stack.conductor_url)
    kind = real.task_type()
    run = real.start(kind, kind)
    program = [sys.executable, "-c", "from perago.cli.main import main; main()", "watch", "last"]
    with subprocess.Popen(
        program,
        env={**os.environ, **own_stack.environment()},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith(f"run {run} of ")
        real.conductor.report(take(real.conductor, kind).attempt, Outcome(TaskStatus.COMPLETED, {"result": {}}), timeout=20)
        assert watching.stdout.readline().startswith("step0: COMPLETED in ")
        own_stack.conductor.kill()
        assert watching.stderr.readline() == "Conductor does not answer; waiting for it for 300 s at most\n"
        own_stack.conductor.start()
        assert watching.stderr.readline() == "Conductor answers again\n"
        real.conductor.report(take(real.conductor, kind, 60).attempt, Outcome(TaskStatus.COMPLETED, {"result": {}}), timeout=20)
        rest, err = watching.communicate(timeout=120)
    real.close()
    assert "step1: COMPLETED in " in rest
    assert (watching.returncode, err) == (0, "")
