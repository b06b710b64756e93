"""The tasks that `worker.py` measures with; the names come from the environment."""

import os

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, task


class Params(BaseModel):
    n: int


class Output(BaseModel):
    n: int


@task(
    name=os.environ["BENCH_TASK"],
    owner_email="bench@example.com",
    controls=TaskControls(retry=RetryPolicy(delay_seconds=0)),
)
def noop(params: Params) -> Output:
    return Output(n=params.n + 1)
