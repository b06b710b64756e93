"""The kill matrix of `perago publish`: it is stopped at a phase and killed, and another command answers the task afterwards."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.human_steps import WaitingStep
from tests.support.kill_matrix import (
    BRANCH,
    COMMIT,
    MERGE,
    PATIENCE,
    REPOSITORY,
    TASK_READ,
    TASK_UPDATE,
    UPLOAD,
    HeldRequest,
    KillPhase,
    Process,
)

_STAGING = rf"{REPOSITORY}/branches/perago-staging[^/]*$"

PHASES = (
    KillPhase("before the staging branch", pattern=BRANCH),
    KillPhase("after the staging branch", pattern=BRANCH, after=True),
    KillPhase("after the upload", pattern=UPLOAD, after=True),
    KillPhase("after the commit", pattern=COMMIT, after=True),
    KillPhase("at the attempt fence", sender=Process.SUPERVISOR, pattern=TASK_READ, armed_by=COMMIT),
    KillPhase("before the merge", pattern=MERGE),
    KillPhase("after the merge", pattern=MERGE, after=True),
    KillPhase("before the look at its own branch", pattern=rf"GET {_STAGING}", armed_by=MERGE),
    KillPhase("before the completion", sender=Process.SUPERVISOR, pattern=TASK_UPDATE),
    KillPhase("after the completion", sender=Process.SUPERVISOR, pattern=TASK_UPDATE, after=True),
    KillPhase("before the end of the staging branch", pattern=rf"DELETE {_STAGING}"),
)
"""The sender `SUPERVISOR` means a request to Conductor here."""
SELECTION = ("before the staging branch", "after the commit", "before the merge", "after the merge", "before the completion")


@contextmanager
def killed(step: WaitingStep, folder: Path, phase: KillPhase) -> Generator[None]:
    """`perago publish` was killed at the phase. At the end, the request that was held arrives."""
    stack = step.harness.stack
    with FaultProxy(stack.conductor_url) as conductor, FaultProxy(stack.lakefs_url) as lakefs:
        hold = HeldRequest(phase.after)
        proxy = conductor if phase.sender is Process.SUPERVISOR else lakefs
        if phase.armed_by is None:
            proxy.on(str(phase.pattern), hold)
        else:

            def arm(exchange: Exchange) -> None:
                reply = exchange.forward()
                proxy.on(str(phase.pattern), hold)
                exchange.client.send(reply.raw)

            lakefs.on(phase.armed_by, arm)
        environment = {"CONDUCTOR_SERVER_URL": conductor.url, "LAKECTL_SERVER_ENDPOINT_URL": lakefs.url, "PERAGO_USER": "alice"}
        process = subprocess.Popen(
            [sys.executable, "-c", "from perago.cli.main import main; main()", "publish", folder, "-r", '{"approved": true}'],
            env={**os.environ, **stack.environment(), **environment},
            cwd=step.harness.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert hold.reached.wait(PATIENCE), f"{phase.name} was not reached"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        yield
        hold.released.set()
        assert hold.passed.wait(PATIENCE), phase.name
