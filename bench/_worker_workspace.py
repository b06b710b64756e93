"""A workspace task that changes one small file; measured by `worker.py` beside the workspace-free one."""

import os
from pathlib import Path

import _request_log
from pydantic import BaseModel

from perago import WorkspaceSpec, task

_request_log.install()


class Params(BaseModel):
    n: int


class Output(BaseModel):
    n: int


@task(name=os.environ["BENCH_TASK"] + ".workspace", owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="data"))
def change(workspace: Path, params: Params) -> Output:
    (workspace / "counter").write_text(str(params.n))
    return Output(n=params.n + 1)
