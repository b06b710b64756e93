"""A workspace task that adds to a file; each step builds on what it finds."""

import os
import signal
from pathlib import Path

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS, once, wait_at

from perago import TaskFailed, WorkspaceSpec, forbid_glob, require_file, task


class Params(BaseModel):
    line: str = "x"
    gate: str | None = None
    die_once: str | None = None
    fail_once: str | None = None
    only_look: bool = False


class Output(BaseModel):
    lines: int


@task(
    name=f"{os.environ['E2E_PREFIX']}.grow",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data", pre=[require_file("log.txt")], post=[forbid_glob("**/*.tmp")]),
    controls=CONTROLS,
)
def grow(workspace: Path, params: Params) -> Output:
    log = workspace / "log.txt"
    if not params.only_look:
        log.write_text(log.read_text() + params.line + "\n")
    if params.line == "temporary":
        (workspace / "left.tmp").touch()
    if params.line == "relative":
        Path("relative.txt").write_text("written by a relative path")
    if params.line == "link":
        (workspace / "link").symlink_to("log.txt")
    wait_at(params.gate)
    if params.die_once is not None and once(params.die_once):
        os.kill(os.getpid(), signal.SIGKILL)
    if params.fail_once is not None and once(params.fail_once):
        raise TaskFailed("this once")
    return Output(lines=len(log.read_text().splitlines()))
