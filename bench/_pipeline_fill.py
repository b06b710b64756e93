"""A task that writes many small files of its own; the step of each lane that `pipeline.py` measures."""

import os
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task


class Params(BaseModel):
    lane: int
    files: int


class Output(BaseModel):
    files: int


@task(
    name=os.environ["BENCH_TASK"] + ".fill",
    owner_email="bench@example.com",
    workspace=WorkspaceSpec(prefix="lanes"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def fill(workspace: Path, params: Params) -> Output:
    folder = workspace / f"{params.lane:04d}"
    folder.mkdir()
    for number in range(params.files):
        (folder / f"{number:05d}.txt").write_text(f"lane {params.lane}, file {number}\n")
    return Output(files=params.files)
