"""Step 5: a read-only quality check. It publishes nothing, and it stops the workflow if the numbers are inconsistent."""

from datetime import date
from typing import Annotated

from pydantic import BaseModel
from pyspark.sql import functions as f

from perago import Between, SparkWorkspace, Table, TaskTerminalError, Unique, WorkspaceSpec, require_table, task


class Day(Table):
    day: Annotated[date, Unique()]
    revenue: Annotated[float, Between(0, None)]
    rows: Annotated[int, Between(1, None)]


class Country(Table):
    country: Annotated[str, Unique()]
    revenue: Annotated[float, Between(0, None)]
    rows: Annotated[int, Between(1, None)]


class Params(BaseModel):
    orders: int
    clean: int
    quarantined: int


class Output(BaseModel):
    checks: int


@task(
    name="shop.gate",
    owner_email="data@example.com",
    description="Check that no order was lost or counted twice.",
    workspace=WorkspaceSpec(
        prefix="/shop",
        read_only=True,
        pre=[require_table("summary/by_day", Day, rows=(1, None)), require_table("summary/by_country", Country, rows=(1, None))],
    ),
)
def gate(workspace: SparkWorkspace, params: Params) -> Output:
    orders = workspace.spark.read.parquet(workspace.input("clean/orders"))
    days = workspace.spark.read.csv(workspace.input("summary/by_day"), header=True, inferSchema=True)
    customers = workspace.spark.read.csv(workspace.input("summary/by_country"), header=True, inferSchema=True)
    seen = days.agg(f.sum("rows"), f.round(f.sum("revenue"), 2)).first()
    known = customers.agg(f.round(f.sum("revenue"), 2)).first()
    assert seen is not None and known is not None  # noqa: S101, PT018 - an aggregate without groups has exactly one row
    facts = {
        "every raw line is clean or quarantined": params.orders == params.clean + params.quarantined,
        "no order was lost on the way": orders.count() == params.clean == seen[0],
        "revenue by day equals revenue by customer": seen[1] == known[0],
    }
    if broken := [fact for fact, holds in facts.items() if not holds]:
        raise TaskTerminalError("; ".join(f"not true: {fact}" for fact in broken))
    return Output(checks=len(facts))
