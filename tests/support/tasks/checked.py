"""A workspace task that adds a row to a table, whose data is checked before it is published."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS, wait_at

from perago import Matches, Table, Unique, WorkspaceSpec, require_table, task


class Params(BaseModel):
    line: str = "x"
    gate: str | None = None


class Output(BaseModel):
    pass


class Row(Table):
    line: Annotated[str, Unique(), Matches("[a-z ]+")]


@task(
    name=f"{os.environ['E2E_PREFIX']}.checked",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data", post=[require_table("lines.csv", Row, rows=(1, None))]),
    controls=CONTROLS,
)
def checked(workspace: Path, params: Params) -> Output:
    table = workspace / "lines.csv"
    table.write_text((table.read_text() if table.exists() else "line\n") + params.line + "\n")
    wait_at(params.gate)
    return Output()
