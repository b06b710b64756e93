"""A writer on the whole repository."""

from pathlib import Path

from tests.support.tasks.chain.controls import CONTROLS, OWNER, PREFIX, WriteParams, Written, append

from perago import WorkspaceSpec, task


@task(name=f"{PREFIX}.write", owner_email=OWNER, workspace=WorkspaceSpec(), controls=CONTROLS)
def write(workspace: Path, params: WriteParams) -> Written:
    return append(workspace, params)
