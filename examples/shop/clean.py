"""Step 2: parse the raw lines; invalid lines are kept in quarantine with the reason."""

from datetime import date, datetime
from typing import Annotated

from pydantic import BaseModel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from perago import (
    Between,
    In,
    RetryPolicy,
    SparkWorkspace,
    Table,
    TaskControls,
    TaskTerminalError,
    Unique,
    WorkspaceSpec,
    require_glob,
    require_table,
    task,
)

SCHEMA = "order_id long, customer_id long, product_id long, quantity int, ordered_at timestamp"


class Order(Table):
    order_id: Annotated[int, Unique()]
    customer_id: Annotated[int, In("raw/customers", "customer_id")]
    product_id: Annotated[int, In("raw/products", "product_id")]
    quantity: Annotated[int, Between(1, 1_000)]
    ordered_at: datetime
    day: date


class Params(BaseModel):
    first_day: date = date(2026, 1, 1)
    most_refused: float = 0.1


class Output(BaseModel):
    clean: int
    quarantined: int


@task(
    name="shop.clean",
    owner_email="data@example.com",
    description="Parse the orders, quarantine the broken ones.",
    workspace=WorkspaceSpec(
        prefix="/shop", pre=[require_glob("raw/orders/*.gz")], post=[require_table("clean/orders", Order, rows=(1, None))]
    ),
    # The same lines are as wrong the second time; one retry is for faults of another kind.
    controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=1)),
)
def clean(workspace: SparkWorkspace, params: Params) -> Output:
    judged = judge(workspace.spark.read.text(workspace.input("raw/orders")), params.first_day).cache()
    refused = judged.where("reason is not null")
    accepted = (
        judged.where("reason is null").select("order.*").dropDuplicates(["order_id"]).withColumn("day", f.to_date("ordered_at"))
    )
    accepted.repartition(4, "day").write.mode("overwrite").partitionBy("day").parquet(workspace.output("clean/orders"))
    refused.select("line", "reason").coalesce(1).write.mode("overwrite").json(workspace.output("quarantine/orders"))
    output = Output(clean=judged.count() - refused.count(), quarantined=refused.count())
    judged.unpersist()
    if output.quarantined > params.most_refused * (output.clean + output.quarantined):
        raise TaskTerminalError(f"{output.quarantined} lines are broken; the export itself must be wrong")
    return output


def judge(lines: DataFrame, first_day: date) -> DataFrame:
    """Each line with its order, and the reason why it cannot be used, or null."""
    order = f.from_json("value", SCHEMA, {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss"})
    return lines.select(f.col("value").alias("line"), order.alias("order")).withColumn(
        "reason",
        f.when(f.col("order.order_id").isNull() | f.col("order.ordered_at").isNull(), "not a whole order")
        .when(f.col("order.customer_id").isNull(), "no customer")
        .when(f.col("order.quantity") < 1, "quantity below 1")
        .when(f.col("order.ordered_at") < f.lit(first_day).cast("timestamp"), "before the shop opened"),
    )
