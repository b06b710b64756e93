"""What more than plain files can be on a branch: single partitions, streams, and a table format with a log of its own."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.test_attempts import ROWS, completed
from tests.support.spark import Desk

from perago import SparkWorkspace
from perago.errors import LakeConflict, TaskStatus
from perago.in_memory import scenario
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


def publish(desk: Desk, body: Callable[[SparkWorkspace], object]) -> Any:
    """Its result; the next attempt starts from what it published."""
    outcome = desk.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    desk.bed.a = desk.head().id
    return outcome.output["result"]


def written(desk: Desk, partition: str) -> list[str]:
    return [path for path in desk.paths() if path.startswith(f"in/out/kind={partition}/")]


@pytest.mark.parametrize("form", ["parquet", "orc", "csv", "json"])
def test_overwriting_single_partitions_is_refused_until_a_committer_is_chosen_that_can(desk: Desk, form: str) -> None:
    desk.csv("raw/rows.csv")
    publish(desk, lambda workspace: by_kind(workspace, form) or {})
    a, kept, replaced = desk.head().id, written(desk, "b"), written(desk, "a")

    refused = desk.run(lambda workspace: by_kind(workspace, form, "kind = 'a'", partitionOverwriteMode="dynamic"))
    assert refused.status is TaskStatus.FAILED
    assert "dynamicPartitionOverwrite" in str(refused.reason)
    assert desk.head().id == a

    def body(workspace: SparkWorkspace) -> object:
        for key, value in RENAMING.items():
            workspace.spark.conf.set(key, value)
        by_kind(workspace, form, "kind = 'a' and id < 4", partitionOverwriteMode="dynamic")
        return {"rows": workspace.spark.read.format(form).load(workspace.output("out")).count()}

    assert publish(desk, body) == {"rows": 2 + 5}
    assert desk.head().parents == (a,)
    assert written(desk, "b") == kept
    assert set(written(desk, "a")).isdisjoint(replaced)
    assert all("/part-" in path for path in desk.paths() if path.startswith("in/out/"))


def test_a_partition_is_overwritten_by_its_own_path(desk: Desk) -> None:
    desk.csv("raw/rows.csv")
    publish(desk, lambda workspace: by_kind(workspace, "parquet") or {})
    kept = written(desk, "b")

    def body(workspace: SparkWorkspace) -> object:
        rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS).where("kind = 'a' and id < 4").drop("kind")
        rows.write.mode("overwrite").parquet(workspace.output("out/kind=a"))
        return {"rows": workspace.spark.read.parquet(workspace.output("out")).count()}

    assert publish(desk, body) == {"rows": 2 + 5}
    assert written(desk, "b") == kept


def stream(workspace: SparkWorkspace, form: str) -> object:
    rows = workspace.spark.readStream.schema(ROWS).csv(workspace.input("raw"))
    made = rows.writeStream.format(form).option("checkpointLocation", workspace.output("checkpoint")).trigger(availableNow=True)
    made.start(workspace.output("stream")).awaitTermination()
    return {}


def test_a_stream_into_files_is_refused_because_its_log_names_the_branch(desk: Desk) -> None:
    a = desk.csv("raw/rows.csv")
    refused = desk.run(lambda workspace: stream(workspace, "parquet"))
    assert refused.status is TaskStatus.FAILED
    assert "in/stream/_spark_metadata/0 ties a stream's files to this attempt's own branch" in str(refused.reason)
    assert desk.head().id == a
    publish(desk, lambda workspace: stream(workspace, "delta"))
    assert publish(desk, lambda w: {"rows": w.spark.read.format("delta").load(w.input("stream")).count()}) == {"rows": 10}


def table(workspace: SparkWorkspace, uri: str, **more: object) -> int:
    return workspace.spark.read.format("delta").options(**more).load(uri).agg({"id": "count"}).first()[0]  # pyright: ignore[reportArgumentType, reportOptionalSubscript]


def make_table(workspace: SparkWorkspace) -> object:
    """Ten rows in version 0, ten more in version 1."""
    rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS)
    for _ in range(2):
        rows.write.format("delta").mode("append").save(workspace.output("table"))
    return {}


def test_a_table_is_changed_in_place_and_after_a_vacuum_old_versions_are_in_old_commits_only(desk: Desk) -> None:
    desk.csv("raw/rows.csv")
    publish(desk, make_table)
    before = f"s3a://{desk.bed.repository}/{desk.bed.a}/in/table"

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

    assert publish(desk, body) == {"rows": 11}
    assert publish(desk, look) == {"now": 11, "then": 20}


def test_a_shallow_clone_lives_as_long_as_what_it_points_to(desk: Desk) -> None:
    desk.csv("raw/rows.csv")
    publish(desk, make_table)

    def body(workspace: SparkWorkspace) -> object:
        for name, source in (("good", workspace.input("table")), ("bad", workspace.output("table"))):
            workspace.spark.sql(f"create table delta.`{workspace.output(name)}` shallow clone delta.`{source}`")
        return {name: table(workspace, workspace.output(name)) for name in ("good", "bad")}

    def look(workspace: SparkWorkspace) -> object:
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            workspace.spark.read.format("delta").load(workspace.input("bad")).collect()
        return {"good": len(workspace.spark.read.format("delta").load(workspace.input("good")).collect())}

    assert publish(desk, body) == {"good": 20, "bad": 20}
    assert publish(desk, look) == {"good": 20}


def test_two_branches_of_one_table_cannot_be_merged(desk: Desk) -> None:
    desk.csv("raw/rows.csv")
    publish(desk, make_table)
    lake, repository = desk.bed.lake, desk.bed.repository
    sides = [BranchName("left"), BranchName("right")]

    def body(workspace: SparkWorkspace) -> object:
        for side in sides:
            lake.create_branch(repository, side, desk.bed.a)
            rows = workspace.spark.range(3).selectExpr("cast(id as int) as id", "'c' as kind")
            rows.write.format("delta").mode("append").save(f"s3a://{repository}/{side}/in/table")
            lake.commit_branch(repository, side, "by hand", {})
        return {}

    assert completed(desk.run(body))
    merge: dict[str, Any] = {"message": "by hand", "metadata": {}, "timeout": 30}
    lake.merge(repository, sides[0], scenario.MAIN, **merge)
    with pytest.raises(LakeConflict):
        lake.merge(repository, sides[1], scenario.MAIN, **merge)
    for side in sides:
        lake.delete_branch(repository, side)
