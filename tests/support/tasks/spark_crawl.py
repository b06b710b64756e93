"""A Spark task whose stage takes as long as it is told to."""

import os

from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, TimeoutPolicy, WorkspaceSpec, task


class Params(BaseModel):
    milliseconds: int


class Output(BaseModel):
    rows: int


@task(
    name=f"{os.environ.get('E2E_PREFIX', 'e2e')}.spark_crawl",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="/data"),
    controls=TaskControls(retry=RetryPolicy(delay_seconds=0), timeout=TimeoutPolicy(response_seconds=10)),
)
def crawl(workspace: SparkWorkspace, params: Params) -> Output:
    slept = f"java_method('java.lang.Thread', 'sleep', cast({params.milliseconds} as bigint))"
    rows = workspace.spark.range(0, 4, 1, 4).selectExpr("id", f"{slept} as slept")
    rows.write.mode("overwrite").parquet(workspace.output("out"))
    return Output(rows=workspace.spark.read.parquet(workspace.output("out")).count())
