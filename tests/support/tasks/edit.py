"""A workspace task that adds a file, or changes nothing; each run may do something else."""

import os
from pathlib import Path

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS, wait_at

from perago import WorkspaceSpec, task


class Params(BaseModel):
    adds: list[str | None]
    """What each run adds, the last one for all further runs; None: it changes nothing."""
    ran: str
    """A file outside the workspace to which each run appends its process id."""
    gate: str | None = None


class Output(BaseModel):
    run: int


@task(
    name=f"{os.environ['E2E_PREFIX']}.edit",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data"),
    controls=CONTROLS,
)
def edit(workspace: Path, params: Params) -> Output:
    with Path(params.ran).open("a+") as ran:
        ran.write(f"{os.getpid()}\n")
        ran.seek(0)
        run = len(ran.readlines())
    wait_at(params.gate)
    added = params.adds[min(run, len(params.adds)) - 1]
    if added is not None:
        (workspace / added).write_text(f"{added} of run {run}\n")
    return Output(run=run)
