"""A task that changes one file of many; a module of Perago and of the public package `perago` 0.6.1, for `attempts.py`."""

import os
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, task


class Params(BaseModel):
    n: int


class Output(BaseModel):
    n: int


@task(name=os.environ["BENCH_TASK"], owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="data"))
def change(workspace: Path, params: Params) -> Output:
    (workspace / "00000").write_text(str(params.n))
    return Output(n=params.n)
