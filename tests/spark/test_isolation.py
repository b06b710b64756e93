"""Consecutive attempts on one driver: no state of one reaches the next."""

import os
import signal
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.spark.test_attempts import completed
from tests.support.spark import SparkHarness

from perago import SparkWorkspace
from perago.errors import TaskStatus


def test_views_settings_caches_tables_and_job_groups_end_with_their_attempt(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def litter(workspace: SparkWorkspace) -> object:
        spark = workspace.spark
        spark.range(3).createOrReplaceTempView("mine")
        spark.range(3).createOrReplaceGlobalTempView("ours")
        spark.range(3).cache().count()
        spark.sparkContext.parallelize([1, 2]).cache().count()
        spark.conf.set("spark.sql.shuffle.partitions", "77")
        spark.sparkContext.setJobGroup("mine", "mine")
        spark.range(3).write.saveAsTable("kept")
        spark.sql("create database more")
        return {}

    def look(workspace: SparkWorkspace) -> object:
        spark: Any = workspace.spark
        return {
            "views": [table.name for table in spark.catalog.listTables()],
            "global": [row[1] for row in spark.sql("show tables in global_temp").collect()],
            "databases": [database.name for database in spark.catalog.listDatabases()],
            "cached": len(spark.sparkContext._jsc.getPersistentRDDs()),
            "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
            "group": spark.sparkContext.getLocalProperty("spark.jobGroup.id"),
        }

    assert completed(harness.run(litter))
    outcome = harness.run(look)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {
        "views": [],
        "global": [],
        "databases": ["default"],
        "cached": 0,
        "partitions": "2",
        "group": None,
    }


def test_credentials_are_those_of_the_session_alone(harness: SparkHarness) -> None:
    def look(workspace: SparkWorkspace) -> object:
        spark = workspace.spark
        own = {key for key, value in spark.conf.getAll.items() if value == harness.access.secret_access_key}
        everywhere = harness.access.secret_access_key in str(spark.sparkContext.getConf().getAll())
        return {"own": sorted(own), "everywhere": everywhere}

    outcome = harness.run(look)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"own": [f"fs.s3a.bucket.{harness.scene.repository}.secret.key"], "everywhere": False}
    driver: Any = SparkContext._gateway
    assert harness.access.secret_access_key not in Path(f"/proc/{driver.proc.pid}/cmdline").read_text()


def test_the_active_session_is_the_attempts_own(harness: SparkHarness) -> None:
    def body(workspace: SparkWorkspace) -> object:
        return {"same": SparkSession.active() is workspace.spark, "built": SparkSession.builder.getOrCreate() is workspace.spark}

    outcome = harness.run(body)
    assert outcome.output is not None
    assert outcome.output["result"] == {"same": True, "built": True}


def test_a_body_that_stops_spark_fails_without_effect_on_the_next(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def stop(workspace: SparkWorkspace) -> object:
        workspace.spark.stop()
        workspace.spark.range(3).count()
        return {}

    assert harness.run(stop).status is TaskStatus.FAILED
    assert completed(harness.run(lambda workspace: {"rows": workspace.spark.read.csv(workspace.input("raw")).count()}))


def test_a_driver_that_is_killed_is_started_anew(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def kill(workspace: SparkWorkspace) -> object:
        jvm: Any = workspace.spark._jvm
        os.kill(int(jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
        workspace.spark.range(3).count()
        return {}

    failed = harness.run(kill)
    assert failed.status is TaskStatus.FAILED
    assert str(failed.reason).startswith(
        "the Spark driver was killed by SIGKILL (9) while the body ran; if the machine ran out of"
    )
    assert any("workspace.spark.range(3).count()" in line for line in failed.log), "where the body was"
    assert completed(harness.run(lambda workspace: {"rows": workspace.spark.read.csv(workspace.input("raw")).count()}))


class Alarm(BaseException):
    """Interrupts a body as a worker does if the body does not check for cancellation."""


def test_a_body_interrupted_while_it_waits_for_spark_does_not_leave_its_answer_to_the_next(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def ring(number: int, frame: object) -> None:
        raise Alarm

    def wait(workspace: SparkWorkspace) -> object:
        workspace.spark.range(1).count()
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        jvm: Any = workspace.spark._jvm
        jvm.java.lang.Thread.sleep(3000)
        return {}

    before = signal.signal(signal.SIGALRM, ring)
    try:
        assert "Alarm" in str(harness.run(wait).reason)
    finally:
        signal.signal(signal.SIGALRM, before)
    outcome = harness.run(lambda workspace: {"rows": workspace.spark.read.csv(workspace.input("raw")).count()})
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"rows": 10}
