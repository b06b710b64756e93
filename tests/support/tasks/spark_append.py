"""A Spark task that adds two lines to a table and replaces another by them; it waits in between where it is told to."""

import os

from pydantic import BaseModel
from tests.support.tasks.plain import CONTROLS, wait_at

from perago import SparkWorkspace, WorkspaceSpec, require_glob, task


class Params(BaseModel):
    line: str
    gate: str


class Output(BaseModel):
    tables: int


@task(
    name=f"{os.environ.get('E2E_PREFIX', 'e2e')}.spark_append",
    owner_email="tests@example.com",
    workspace=WorkspaceSpec(prefix="data", pre=[require_glob("log/*")], post=[require_glob("last/*")]),
    controls=CONTROLS,
)
def append(workspace: SparkWorkspace, params: Params) -> Output:
    rows = workspace.spark.range(0, 2, 1, 2).selectExpr(f"concat('{params.line}: ', id) as value")
    rows.write.mode("append").text(workspace.output("log"))
    wait_at(params.gate)
    rows.write.mode("overwrite").text(workspace.output("last"))
    return Output(tables=2)
