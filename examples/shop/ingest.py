"""Step 1: generate the raw data, in place of a shop's nightly export. The same seed gives the same lines everywhere."""

import json

from pydantic import BaseModel, Field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from perago import SparkWorkspace, WorkspaceSpec, require_glob, task

ORDERS_PER_SCALE = 100_000
CUSTOMERS_PER_SCALE = 10_000
PRODUCTS = 500
DAYS = 90
FAULTY_ONE_IN = 50
COUNTRIES = ["CN", "DE", "FR", "GB", "JP", "US"]
CATEGORIES = ["books", "garden", "kitchen", "music", "sports", "toys"]


class Params(BaseModel):
    scale: float = Field(default=1.0, gt=0, le=1000)
    seed: int = 7
    poisoned: bool = False


class Output(BaseModel):
    orders: int
    customers: int
    products: int


@task(
    name="shop.ingest",
    owner_email="data@example.com",
    description="Make the raw orders, customers and products.",
    workspace=WorkspaceSpec(prefix="/shop", post=[require_glob("raw/orders/*.gz"), require_glob("raw/customers/*.parquet")]),
)
def ingest(workspace: SparkWorkspace, params: Params) -> Output:
    spark: SparkSession = workspace.spark
    orders, customers = int(ORDERS_PER_SCALE * params.scale), max(1, int(CUSTOMERS_PER_SCALE * params.scale))
    lines = order_lines(spark, orders, customers, params.seed)
    if params.poisoned:
        lines = lines.union(poisoned_lines(spark, orders, customers))
    lines.write.mode("overwrite").text(workspace.output("raw/orders"), compression="gzip")
    people(spark, customers, params.seed).write.mode("overwrite").parquet(workspace.output("raw/customers"))
    goods(spark, params.seed).coalesce(1).write.mode("overwrite").parquet(workspace.output("raw/products"))
    return Output(orders=orders, customers=customers, products=PRODUCTS)


def dice(seed: int, salt: str, sides: int) -> Column:
    """A number from 0 to `sides` - 1 that depends only on the row's id, not on the distribution of rows over machines."""
    return f.pmod(f.xxhash64(f.col("id"), f.lit(f"{seed}/{salt}")), f.lit(sides)).cast("int")


def pick(choices: list[str], index: Column) -> Column:
    return f.element_at(f.array(*[f.lit(choice) for choice in choices]), index + 1)


def order_lines(spark: SparkSession, orders: int, customers: int, seed: int) -> DataFrame:
    """JSON lines; about one in fifty is invalid in one of four ways."""
    # The square lets a few customers buy much more than the others.
    customer = f.floor(f.pow(dice(seed, "customer", 1_000_000) / 1_000_000, 2) * customers).cast("long")
    moment = f.timestamp_seconds(f.lit(1_767_225_600) + dice(seed, "second", DAYS * 86_400))
    good = f.to_json(
        f.struct(
            f.col("id").alias("order_id"),
            customer.alias("customer_id"),
            (dice(seed, "product", PRODUCTS) + 1).alias("product_id"),
            (dice(seed, "quantity", 5) + 1).alias("quantity"),
            f.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss").alias("ordered_at"),
        )
    )
    faults = [
        f.substring(good, 1, 30),
        f.regexp_replace(good, r'"quantity":\d+', '"quantity":-1'),
        f.regexp_replace(good, r'"customer_id":\d+', '"customer_id":null'),
        f.regexp_replace(good, r'"ordered_at":"\d{4}', '"ordered_at":"1970'),
    ]
    line = f.coalesce(f.get(f.array(*faults), dice(seed, "fault", FAULTY_ONE_IN * len(faults))), good)
    return spark.range(orders).select(line.alias("value"))


def poisoned_lines(spark: SparkSession, orders: int, customers: int) -> DataFrame:
    """Orders that can be parsed and are wrong all the same: an unknown customer, an unknown product, a quantity beyond reason."""
    customer, product, quantity = customers // 2, 1, 1
    wrong = [(customers + 7, product, quantity), (customer, PRODUCTS + 7, quantity), (customer, product, 1_000_000)]
    rows = [(orders + number, *values, "2026-01-31T12:00:00") for number, values in enumerate(wrong * 2)]
    columns = ("order_id", "customer_id", "product_id", "quantity", "ordered_at")
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    return spark.range(1).select(f.explode(f.array(*map(f.lit, lines))).alias("value"))


def people(spark: SparkSession, customers: int, seed: int) -> DataFrame:
    return spark.range(customers).select(
        f.col("id").alias("customer_id"),
        pick(COUNTRIES, dice(seed, "country", len(COUNTRIES))).alias("country"),
        f.date_sub(f.lit("2026-01-01").cast("date"), dice(seed, "since", 1500)).alias("since"),
    )


def goods(spark: SparkSession, seed: int) -> DataFrame:
    return spark.range(1, PRODUCTS + 1).select(
        f.col("id").alias("product_id"),
        pick(CATEGORIES, dice(seed, "category", len(CATEGORIES))).alias("category"),
        (dice(seed, "price", 19_900) / 100 + 1).cast("decimal(10,2)").alias("price"),
    )
