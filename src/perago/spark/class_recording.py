"""Runs a driver while Java records the classes that it loads: `python -m perago.spark.class_recording SCRATCH JAVA_OPTION`."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from perago.model import LakeAccess, Repository
from perago.spark import driver, options, runtime, s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITE_SECONDS = 300.0
"""For the archive, which Java writes when it ends."""
_NOWHERE = LakeAccess("http://127.0.0.1:1", "none", "none")
_ONE_TRY = {"fs.s3a.attempts.maximum": "0", "fs.s3a.retry.limit": "0"}


def main(arguments: Sequence[str]) -> int:
    scratch, option = arguments
    chosen = options.SparkOptions(Path(scratch), properties={"spark.driver.extraJavaOptions": f'"{option}"'})
    recorded = driver.Driver(chosen, runtime.without_archive)
    settings = {**s3a.session_settings(Repository("none"), _NOWHERE), **_ONE_TRY}
    _use(recorded.session(settings).spark, Path(scratch).resolve() / "data")
    recorded.close(_WRITE_SECONDS)
    return 0


def _use(spark: "SparkSession", folder: Path) -> None:
    """What many bodies do: write and read files, aggregate, and connect to S3. There is no server, so that the last one fails."""
    rows = spark.range(0, 100, 1, 2).selectExpr("id", "cast(id as string) as text", "id % 3 as group")
    rows.write.parquet(f"file://{folder}/parquet")
    spark.read.parquet(f"file://{folder}/parquet").groupBy("group").count().orderBy("group").collect()
    rows.write.option("header", "true").csv(f"file://{folder}/csv")
    spark.read.option("header", "true").csv(f"file://{folder}/csv").where("id > 5").count()
    with contextlib.suppress(Py4JError, PySparkException):
        spark.read.parquet("s3a://none/main/none")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
