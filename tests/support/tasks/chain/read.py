"""A task that only reads: what it returns depends on every byte of the repository."""

import hashlib
from pathlib import Path

from pydantic import BaseModel
from tests.support.tasks.chain.controls import CONTROLS, OWNER, PREFIX, fail_if_asked

from perago import WorkspaceSpec, task


class Params(BaseModel):
    number: int = 0
    fail: str = ""


class Seen(BaseModel):
    files: int
    digest: str
    number: int


@task(name=f"{PREFIX}.read", owner_email=OWNER, workspace=WorkspaceSpec(read_only=True), controls=CONTROLS)
def read(workspace: Path, params: Params) -> Seen:
    fail_if_asked(params.fail)
    found = sorted(path for path in workspace.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in found:
        digest.update(f"{path.relative_to(workspace)}\n".encode() + path.read_bytes())
    return Seen(files=len(found), digest=digest.hexdigest(), number=params.number)
