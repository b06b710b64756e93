"""Step 3: features of each customer: recency, frequency, value and favourite category."""

from pydantic import BaseModel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from perago import RetryPolicy, SparkWorkspace, TaskControls, TimeoutPolicy, WorkspaceSpec, require_glob, task


class Params(BaseModel):
    today: str = "2026-04-01"


class Output(BaseModel):
    customers: int


@task(
    name="shop.features",
    owner_email="data@example.com",
    description="Join orders, customers and products into features of each customer.",
    workspace=WorkspaceSpec(
        prefix="/shop",
        pre=[
            require_glob("clean/orders/**/*.parquet"),
            require_glob("raw/customers/*.parquet"),
            require_glob("raw/products/*.parquet"),
        ],
        post=[require_glob("features/customers/*.parquet")],
    ),
    # If a worker dies, the lease expires after 20 s and another attempt starts one second later.
    controls=TaskControls(retry=RetryPolicy(delay_seconds=1), timeout=TimeoutPolicy(response_seconds=20)),
)
def features(workspace: SparkWorkspace, params: Params) -> Output:
    read = workspace.spark.read.parquet
    bought = read(workspace.input("clean/orders")).join(f.broadcast(read(workspace.input("raw/products"))), "product_id")
    bought = bought.withColumn("value", f.col("quantity") * f.col("price"))
    known = (
        read(workspace.input("raw/customers"))
        .join(behaviour(bought, params.today), "customer_id")
        .join(favourites(bought), "customer_id")
    )
    known.repartition(2).write.mode("overwrite").parquet(workspace.output("features/customers"))
    return Output(customers=workspace.spark.read.parquet(workspace.output("features/customers")).count())


def behaviour(bought: DataFrame, today: str) -> DataFrame:
    return bought.groupBy("customer_id").agg(
        f.datediff(f.lit(today), f.max("day")).alias("recency_days"),
        f.count_distinct("order_id").alias("orders"),
        f.sum("value").alias("value"),
    )


def favourites(bought: DataFrame) -> DataFrame:
    """The category on which a customer spent most; ties are broken alphabetically, so that a retry gives the same result."""
    spent = bought.groupBy("customer_id", "category").agg(f.sum("value").alias("spent"))
    first = Window.partitionBy("customer_id").orderBy(f.desc("spent"), "category")
    return (
        spent.withColumn("place", f.row_number().over(first))
        .where("place = 1")
        .select("customer_id", f.col("category").alias("favourite"))
    )
