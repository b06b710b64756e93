"""A read-only workspace task that may wait."""

import os
from pathlib import Path

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS, wait_at

from perago import WorkspaceSpec, task


class Params(BaseModel):
    ran: str
    gate: str | None = None


class Output(BaseModel):
    files: list[str]


@task(
    name=f"{os.environ['E2E_PREFIX']}.view",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data", read_only=True),
    controls=CONTROLS,
)
def view(workspace: Path, params: Params) -> Output:
    with Path(params.ran).open("a") as ran:
        ran.write(f"{os.getpid()}\n")
    wait_at(params.gate)
    return Output(files=sorted(path.name for path in workspace.iterdir() if not path.name.startswith(".")))
