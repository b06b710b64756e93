"""Spark output other than plain files: single partitions, streams, and a table format with its own log."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.test_attempts import ROWS, completed
from tests.support.spark import SparkHarness

from perago import SparkWorkspace
from perago.errors import LakeConflict, TaskStatus
from perago.in_memory.lake import MAIN
from perago.model import BranchName

RENAMING = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory",
}
"""As the manual has it."""


def by_kind(workspace: SparkWorkspace, form: str, where: str = "true", **more: str) -> None:
    rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS).where(where)
    rows.write.format(form).options(**more).partitionBy("kind").mode("overwrite").save(workspace.output("out"))


def publish(harness: SparkHarness, body: Callable[[SparkWorkspace], object]) -> Any:
    """Its result; the next attempt starts from what it published."""
    outcome = harness.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    harness.scene.a = harness.head().id
    return outcome.output["result"]


def written(harness: SparkHarness, partition: str) -> list[str]:
    return [path for path in harness.paths() if path.startswith(f"in/out/kind={partition}/")]


@pytest.mark.parametrize(
    "form", ["parquet", "csv", pytest.param("orc", marks=pytest.mark.chaos), pytest.param("json", marks=pytest.mark.chaos)]
)
def test_overwriting_single_partitions_is_refused_until_a_committer_is_chosen_that_can(harness: SparkHarness, form: str) -> None:
    harness.csv("raw/rows.csv")
    publish(harness, lambda workspace: by_kind(workspace, form) or {})
    a, kept, replaced = harness.head().id, written(harness, "b"), written(harness, "a")

    refused = harness.run(lambda workspace: by_kind(workspace, form, "kind = 'a'", partitionOverwriteMode="dynamic"))
    assert refused.status is TaskStatus.FAILED
    assert "dynamicPartitionOverwrite" in str(refused.reason)
    assert harness.head().id == a

    def body(workspace: SparkWorkspace) -> object:
        for key, value in RENAMING.items():
            workspace.spark.conf.set(key, value)
        by_kind(workspace, form, "kind = 'a' and id < 4", partitionOverwriteMode="dynamic")
        return {"rows": workspace.spark.read.format(form).load(workspace.output("out")).count()}

    assert publish(harness, body) == {"rows": 2 + 5}
    assert harness.head().parents == (a,)
    assert written(harness, "b") == kept
    assert set(written(harness, "a")).isdisjoint(replaced)
    assert all("/part-" in path for path in harness.paths() if path.startswith("in/out/"))


def test_a_partition_is_overwritten_by_its_own_path(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")
    publish(harness, lambda workspace: by_kind(workspace, "parquet") or {})
    kept = written(harness, "b")

    def body(workspace: SparkWorkspace) -> object:
        rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS).where("kind = 'a' and id < 4").drop("kind")
        rows.write.mode("overwrite").parquet(workspace.output("out/kind=a"))
        return {"rows": workspace.spark.read.parquet(workspace.output("out")).count()}

    assert publish(harness, body) == {"rows": 2 + 5}
    assert written(harness, "b") == kept


def stream(workspace: SparkWorkspace, form: str) -> object:
    rows = workspace.spark.readStream.schema(ROWS).csv(workspace.input("raw"))
    made = rows.writeStream.format(form).option("checkpointLocation", workspace.output("checkpoint")).trigger(availableNow=True)
    made.start(workspace.output("stream")).awaitTermination()
    return {}


def test_a_stream_into_files_is_refused_because_its_log_names_the_branch(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    refused = harness.run(lambda workspace: stream(workspace, "parquet"))
    assert refused.status is TaskStatus.FAILED
    assert "in/stream/_spark_metadata/0 refers to a stream's files on this attempt's staging branch" in str(refused.reason)
    assert harness.head().id == a
    publish(harness, lambda workspace: stream(workspace, "delta"))
    assert publish(harness, lambda w: {"rows": w.spark.read.format("delta").load(w.input("stream")).count()}) == {"rows": 10}


def table(workspace: SparkWorkspace, uri: str, **more: object) -> int:
    return workspace.spark.read.format("delta").options(**more).load(uri).agg({"id": "count"}).first()[0]  # pyright: ignore[reportArgumentType, reportOptionalSubscript]


def make_table(workspace: SparkWorkspace) -> object:
    """Ten rows in version 0, ten more in version 1."""
    rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS)
    for _ in range(2):
        rows.write.format("delta").mode("append").save(workspace.output("table"))
    return {}


@pytest.mark.chaos
def test_a_table_is_changed_in_place_and_after_a_vacuum_old_versions_are_in_old_commits_only(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")
    publish(harness, make_table)
    before = f"s3a://{harness.scene.repository}/{harness.scene.a}/in/table"

    def body(workspace: SparkWorkspace) -> object:
        workspace.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        # A vacuum lists the table in ten thousand tasks, whatever its size.
        workspace.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        place = f"delta.`{workspace.output('table')}`"
        workspace.spark.sql(f"delete from {place} where id < 5")
        workspace.spark.sql(f"update {place} set kind = 'c' where id = 9")
        new = "(select 77 id, 'd' kind)"
        workspace.spark.sql(f"merge into {place} t using {new} s on t.id = s.id when not matched then insert *")
        workspace.spark.sql(f"vacuum {place} retain 0 hours")
        return {"rows": table(workspace, workspace.output("table"))}

    def look(workspace: SparkWorkspace) -> object:
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            table(workspace, workspace.input("table"), versionAsOf=1)
        return {"now": table(workspace, workspace.input("table")), "then": table(workspace, before)}

    assert publish(harness, body) == {"rows": 11}
    assert publish(harness, look) == {"now": 11, "then": 20}


@pytest.mark.chaos
def test_a_shallow_clone_lives_as_long_as_what_it_points_to(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")
    publish(harness, make_table)

    def body(workspace: SparkWorkspace) -> object:
        for name, source in (("good", workspace.input("table")), ("bad", workspace.output("table"))):
            workspace.spark.sql(f"create table delta.`{workspace.output(name)}` shallow clone delta.`{source}`")
        return {name: table(workspace, workspace.output(name)) for name in ("good", "bad")}

    def look(workspace: SparkWorkspace) -> object:
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            workspace.spark.read.format("delta").load(workspace.input("bad")).collect()
        return {"good": len(workspace.spark.read.format("delta").load(workspace.input("good")).collect())}

    assert publish(harness, body) == {"good": 20, "bad": 20}
    assert publish(harness, look) == {"good": 20}


def test_two_branches_of_one_table_cannot_be_merged(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")
    publish(harness, make_table)
    lake, repository = harness.scene.lake, harness.scene.repository
    sides = [BranchName("left"), BranchName("right")]

    def body(workspace: SparkWorkspace) -> object:
        for side in sides:
            lake.create_branch(repository, side, harness.scene.a)
            rows = workspace.spark.range(3).selectExpr("cast(id as int) as id", "'c' as kind")
            rows.write.format("delta").mode("append").save(f"s3a://{repository}/{side}/in/table")
            lake.commit_branch(repository, side, "by hand", {})
        return {}

    assert completed(harness.run(body))
    merge: dict[str, Any] = {"message": "by hand", "metadata": {}, "timeout": 30}
    lake.merge(repository, sides[0], MAIN, **merge)
    with pytest.raises(LakeConflict):
        lake.merge(repository, sides[1], MAIN, **merge)
    for side in sides:
        lake.delete_branch(repository, side)
