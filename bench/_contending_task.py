"""The task of the contention soak, in an executor with random pauses and kills and, if set, without one rule.

An executor imports its task module before it takes work, so what this module changes in perago holds for all of its attempts.
Settings are environment variables:

- SOAK_PAUSE: attempts sometimes wait up to this number of seconds directly before the request that moves the target branch, where
  a pause can cause a race.
- SOAK_DEATH: with this probability the executor is killed directly after that request, which leaves an unaccepted head.
- SOAK_WITHOUT_RULE: one of `_switches.RULES`, which is then not followed.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import _switches
from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS

from perago import WorkspaceSpec, task
from perago.lake.client import LakeFS

_PAUSE_SHARE = 0.4


class Params(BaseModel):
    line: str
    only_look: bool = False


class Output(BaseModel):
    lines: int


@task(
    name=f"{os.environ['E2E_PREFIX']}.grow",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data"),
    controls=CONTROLS,
)
def grow(workspace: Path, params: Params) -> Output:
    log = workspace / "log.txt"
    if not params.only_look:
        log.write_text(log.read_text() + params.line + "\n")
    return Output(lines=len(log.read_text().splitlines()))


def _disturb_publications(pause_seconds: float, death_share: float) -> None:
    for name in ("merge", "relocate"):
        _switches.put(LakeFS, name, _disturbed(getattr(LakeFS, name), pause_seconds, death_share))


def _disturbed(request: Callable[..., Any], pause_seconds: float, death_share: float) -> Callable[..., Any]:
    def disturbed(*arguments: Any, **named: Any) -> Any:
        if random.random() < _PAUSE_SHARE:
            time.sleep(random.uniform(0, pause_seconds))
        answer = request(*arguments, **named)
        if random.random() < death_share:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return disturbed


_disturb_publications(float(os.environ.get("SOAK_PAUSE", "0")), float(os.environ.get("SOAK_DEATH", "0")))
if rule := os.environ.get("SOAK_WITHOUT_RULE"):
    _switches.RULES[rule]()
