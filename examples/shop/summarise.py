"""Step 4: small summary tables as CSV."""

from pydantic import BaseModel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from perago import SparkWorkspace, WorkspaceSpec, forbid_glob, require_glob, task


class Params(BaseModel):
    big_spender: float = 5000.0
    active_days: int = 30


class Output(BaseModel):
    revenue: float
    days: int


@task(
    name="shop.summarise",
    owner_email="data@example.com",
    description="Revenue by day, category and country, and customer segments.",
    workspace=WorkspaceSpec(
        prefix="/shop",
        pre=[require_glob("features/customers/*.parquet")],
        post=[require_glob("summary/*/*.csv", min_count=4), forbid_glob("**/_temporary/**")],
    ),
)
def summarise(workspace: SparkWorkspace, params: Params) -> Output:
    read = workspace.spark.read.parquet
    customers = read(workspace.input("features/customers"))
    sales = read(workspace.input("clean/orders")).join(read(workspace.input("raw/products")), "product_id")
    sales = sales.withColumn("value", f.col("quantity") * f.col("price")).cache()
    by_day = total(sales, "day")
    segment = (
        f.when(f.col("value") >= params.big_spender, "big spender")
        .when(f.col("recency_days") <= params.active_days, "active")
        .otherwise("sleeping")
    )
    tables = {
        "by_day": by_day,
        "by_category": total(sales, "category"),
        "by_country": total(customers, "country"),
        "by_segment": total(customers.withColumn("segment", segment), "segment"),
    }
    for name, table in tables.items():
        table.coalesce(1).write.mode("overwrite").csv(workspace.output(f"summary/{name}"), header=True)
    days = by_day.agg(f.sum("revenue"), f.count("*")).first()
    sales.unpersist()
    assert days is not None  # noqa: S101 - an aggregate without groups has exactly one row
    return Output(revenue=float(days[0] or 0), days=days[1])


def total(rows: DataFrame, key: str) -> DataFrame:
    return rows.groupBy(key).agg(f.sum("value").alias("revenue"), f.count("*").alias("rows")).orderBy(key)
