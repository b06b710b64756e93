"""A task that works for a while and changes one small file; a step of the pipelines that `pipeline.py` measures."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, task


class Params(BaseModel):
    line: int
    seconds: float


class Output(BaseModel):
    lines: int


@task(name=os.environ["BENCH_TASK"] + ".append", owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="data"))
def append(workspace: Path, params: Params) -> Output:
    time.sleep(params.seconds)
    file = workspace / "lines"
    lines = [*(file.read_text().splitlines() if file.exists() else []), str(params.line)]
    file.write_text("\n".join(lines))
    return Output(lines=len(lines))
