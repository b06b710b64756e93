"""A writer on a part of the repository."""

from pathlib import Path

from tests.support.tasks.chain.controls import CONTROLS, OWNER, PREFIX, WriteParams, Written, append

from perago import WorkspaceSpec, task


@task(name=f"{PREFIX}.write_inner", owner_email=OWNER, workspace=WorkspaceSpec(prefix="/inner"), controls=CONTROLS)
def write_inner(workspace: Path, params: WriteParams) -> Written:
    return append(workspace, params)
