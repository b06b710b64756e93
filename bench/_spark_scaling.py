"""A fixed job on one and on two executors."""

from pathlib import Path
from typing import Any

from _spark_start import DRIVER, took

from perago.provision.progress import quiet
from perago.spark import engine, options


def measure(root: Path, rows: int) -> dict[int, float]:
    """Time a fixed job of many small tasks on one and on two executors, each a process with one core."""
    found: dict[int, float] = {}
    for executors in (1, 2):
        chosen = {**DRIVER, "spark.master": f"local-cluster[{executors},1,1024]", "spark.executor.memory": "1g"}
        spark = engine.make(options.SparkOptions(root / f"scaling-{executors}", properties=chosen), quiet)
        session = spark.session({})
        hashed(session.spark, rows // 10)
        found[executors] = took(lambda spark=session.spark: hashed(spark, rows))
        session.close()
        spark.close()
    return found


def hashed(spark: Any, rows: int) -> None:
    """Run the job with a new plan each time: Spark would reuse the shuffled stages of an old plan and compute nothing."""
    spark.range(0, rows, 1, 64).selectExpr("bit_xor(xxhash64(id, sha2(cast(id as string), 256))) as x").collect()
