"""A read-only workspace task."""

import os
from pathlib import Path

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS

from perago import WorkspaceSpec, task


class Params(BaseModel):
    pass


class Output(BaseModel):
    lines: int


@task(
    name=f"{os.environ['E2E_PREFIX']}.look",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data", read_only=True),
    controls=CONTROLS,
)
def look(workspace: Path, params: Params) -> Output:
    del params
    (workspace / "scribble").write_text("discarded")
    return Output(lines=len((workspace / "log.txt").read_text().splitlines()))
