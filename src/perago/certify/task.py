"""The certification task for Perago's own worker: `perago certify --worker 'perago start perago.certify.task'`."""

import os
import uuid
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TimeoutPolicy, WorkspaceSpec, task
from perago.certify import contract


class Params(BaseModel):
    folder: str
    text: str


class Output(BaseModel):
    written: str
    """The path of the new file, empty if nothing was written."""


@task(
    name=os.environ.get(contract.TASK_TYPE_VARIABLE, contract.DEFAULT_TASK_TYPE),
    owner_email=contract.OWNER,
    description="Writes one new file, for perago certify.",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(
        retry=RetryPolicy(count=contract.RETRIES, delay_seconds=0),
        timeout=TimeoutPolicy(response_seconds=contract.SHORT_RESPONSE_SECONDS, policy="RETRY"),
    ),
)
def write_one_file(workspace: Path, params: Params) -> Output:
    """A name of its own for each execution, so that the history tells which of them were published."""
    if not params.text:
        return Output(written="")
    path = Path(params.folder) / uuid.uuid4().hex
    (workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (workspace / path).write_text(params.text)
    return Output(written=str(path))
