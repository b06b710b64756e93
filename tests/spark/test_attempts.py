"""Spark tasks in whole transactions: what they publish, what is refused, and what is left behind."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.recording import RecordingTask
from tests.support.spark import SparkHarness, requires

from perago import SparkWorkspace, events
from perago.attempt import kept_gc, transaction
from perago.attempt.execution import KeepFailed
from perago.errors import PostGuardrailViolation, TaskStatus
from perago.model import BranchName, Listing
from perago.operate.protocol_check.dict_task import upload
from perago.operate.protocol_check.scene import ref_of

ROWS = "id int, kind string"


def double(workspace: SparkWorkspace) -> object:
    """Reads the raw rows and writes them as Parquet."""
    rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS)
    rows.write.mode("overwrite").parquet(workspace.output("out"))
    return {"rows": workspace.spark.read.parquet(workspace.output("out")).count()}


def total(rows: Any) -> int:
    return rows.agg({"id": "sum"}).first()[0]


def completed(outcome: object) -> bool:
    status = getattr(outcome, "status", None)
    assert status is TaskStatus.COMPLETED, (getattr(outcome, "reason", None), getattr(outcome, "log", None))
    return True


def test_what_a_body_writes_is_published_on_its_input_and_nothing_else(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    outcome = harness.run(double, pre=requires("raw/rows.csv"), post=requires("out/part-"))
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"rows": 10}
    head = harness.head()
    assert (ref_of(outcome), head.parents) == (head.id, (a,))
    new = set(harness.paths()) - set(harness.paths(a))
    assert new
    assert all(path.startswith("in/out/part-") and path.endswith(".parquet") for path in new)


def test_a_body_that_writes_nothing_leaves_the_branch_where_it_is(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    outcome = harness.run(lambda workspace: {"rows": workspace.spark.read.csv(workspace.input("raw")).count()})
    assert completed(outcome)
    assert (ref_of(outcome), harness.head().id) == (a, a)


def test_a_read_only_task_has_no_output_and_no_branch(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    branches: list[BranchName] = []

    def body(workspace: SparkWorkspace) -> object:
        branches.extend(harness.scene.staging_branches())
        assert list(workspace.list("raw/*")) == ["raw/rows.csv"]
        assert workspace.read_text("raw/rows.csv").startswith("0,a\n")
        return {"rows": workspace.spark.read.csv(workspace.input("raw")).count()}

    outcome = harness.run(body, read_only=True)
    assert completed(outcome)
    assert (ref_of(outcome), harness.head().id, branches) == (a, a, [])
    for write in (lambda workspace: workspace.output("x"), lambda workspace: workspace.write_text("x", "y")):
        refused = harness.run(write, read_only=True)
        assert refused.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
        assert "read-only" in str(refused.reason)


def test_a_retry_replaces_an_abandoned_publication(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    first = harness.scene.start()
    abandoned = harness.run(double, first)
    assert completed(abandoned)
    outcome = harness.run(double, harness.scene.retry(first))
    assert completed(outcome)
    assert harness.head().parents == (a,)
    assert harness.head().id not in {a, ref_of(abandoned)}


def test_a_path_is_overwritten_while_it_is_read(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS)
        rows.selectExpr("id + 1", "kind").write.mode("overwrite").csv(workspace.output("raw"))
        own = workspace.spark.read.csv(workspace.output("raw"), schema=ROWS)
        return {"was": total(rows), "is": total(own)}

    outcome = harness.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"was": 45, "is": 55}
    assert "in/raw/rows.csv" in harness.paths(a)
    assert "in/raw/rows.csv" not in harness.paths()
    assert "other" in harness.paths()


@pytest.mark.parametrize("form", ["parquet", "orc", "csv", "json"])
def test_partitioned_and_appended_writes_in_every_format(harness: SparkHarness, form: str) -> None:
    harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        rows = workspace.spark.read.csv(workspace.input("raw"), schema=ROWS)
        for _ in range(2):
            rows.write.format(form).mode("append").partitionBy("kind").save(workspace.output("out"))
        return {"rows": workspace.spark.read.format(form).load(workspace.output("out")).count()}

    outcome = harness.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"rows": 20}
    written = [path for path in harness.paths() if path.startswith("in/out/")]
    assert len(written) == 4
    assert all(path.startswith(("in/out/kind=a/part-", "in/out/kind=b/part-")) for path in written)


def test_small_files_are_read_and_written_beside_the_data(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        workspace.write_text("notes/été.md", "naïve ☃\n")
        assert workspace.read_text("notes/été.md") == "naïve ☃\n"
        with pytest.raises(FileNotFoundError, match="notes/none"):
            workspace.read_text("notes/none")
        return {"files": list(workspace.list("**/*.md"))}

    outcome = harness.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"files": ["notes/été.md"]}
    assert harness.scene.content(harness.head().id)["in/notes/été.md"] == "naïve ☃\n".encode()


def test_a_write_outside_the_prefix_fails_the_attempt(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        elsewhere = workspace.output("x").replace("/in/x", "/elsewhere")
        workspace.spark.range(3).write.parquet(elsewhere)
        return {}

    outcome = harness.run(body)
    assert outcome.status is TaskStatus.FAILED
    assert "outside the workspace prefix /in: elsewhere/part-" in str(outcome.reason)
    assert harness.head().id == a


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../../b", "s3a://other/x", "a\\b", "", "a//b"])
def test_paths_stay_inside_the_workspace(harness: SparkHarness, path: str) -> None:
    outcome = harness.run(lambda workspace: workspace.output(path))
    assert outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR


@pytest.mark.parametrize("read_only", [False, True])
def test_a_write_to_the_target_branch_by_hand_is_noticed(harness: SparkHarness, read_only: bool) -> None:
    a = harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        workspace.spark.range(3).write.parquet(f"s3a://{harness.scene.repository}/main/in/direct")
        return {}

    outcome = harness.run(body, read_only=read_only)
    assert outcome.status is TaskStatus.FAILED
    assert "branch main has uncommitted changes, first of them in/direct/" in str(outcome.reason)
    assert harness.head().id == a


def test_a_body_that_fails_half_way_publishes_nothing(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        double(workspace)
        raise ValueError("half way")

    outcome = harness.run(body)
    assert outcome.status is TaskStatus.FAILED
    assert "half way" in str(outcome.reason)
    assert harness.head().id == a


def test_leftovers_of_committers_are_not_published_and_those_of_the_input_stay(harness: SparkHarness) -> None:
    harness.scene.a = harness.scene.publish({"in/old/_temporary/0/x": b"somebody's", "in/kept/": b""}).id

    def body(workspace: SparkWorkspace) -> object:
        branch = BranchName(workspace.output("x").split("/")[3])
        for path in ("in/new/_temporary/0/part", "in/new/__magic_job-1/part.pendingset", "in/new/", "new/"):
            upload(harness.scene.lake, harness.scene.repository, branch, path, b"")
        workspace.write_text("new/data", "data")
        return {}

    assert completed(harness.run(body))
    assert set(harness.paths()) == {"in/kept/", "in/new/data", "in/old/_temporary/0/x", "in/x", "other"}


def test_stale_attempts_have_their_jobs_cancelled_at_once(harness: SparkHarness) -> None:
    """A stage of tasks that would take minutes."""
    a = harness.csv("raw/rows.csv")
    cancelled_at = harness.cancel_when_tasks_run()
    outcome = harness.run(lambda workspace: slow_rows(workspace).write.parquet(workspace.output("out")))
    assert outcome.status is TaskStatus.FAILED
    assert time.monotonic() - cancelled_at[0] < 5
    assert harness.head().id == a


def slow_rows(workspace: SparkWorkspace) -> Any:
    """Eight rows that take 15 seconds each."""
    spark = workspace.spark
    return spark.range(0, 8, 1, 8).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 15000 + id) as slept")


def test_jobs_that_the_body_leaves_running_are_gone_before_the_commit(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        stream = workspace.spark.readStream.format("rate").load()
        stream.writeStream.format("noop").option("checkpointLocation", workspace.output("checkpoint")).start()
        workspace.write_text("done", "yes")
        return {"active": len(workspace.spark.streams.active)}

    outcome = harness.run(body)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"active": 1}


def test_progress_tells_of_tasks(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def body(workspace: SparkWorkspace) -> object:
        spark = workspace.spark
        slow = spark.range(0, 8, 1, 8).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 400 + id) as slept")
        slow.write.parquet(workspace.output("out"))
        return {}

    assert completed(harness.run(body))
    told = [event for event in harness.heard if isinstance(event, events.Progress) and event.unit == "tasks"]
    assert told
    assert all(event.total_files == 8 and event.phase is events.Phase.BODY for event in told)
    assert [event.files for event in told] == sorted(event.files for event in told)
    assert "of 8 tasks" in told[0].note


def test_what_spark_wrote_is_downloaded_and_checked_by_a_local_task(harness: SparkHarness, tmp_path: Path) -> None:
    """The committers upload in parts, and lakeFS's checksum of such an object is no MD5 of its bytes."""
    harness.csv("raw/rows.csv")
    assert completed(harness.run(double))
    head = harness.head().id
    found = list(harness.scene.lake.objects(harness.scene.repository, head, "in/out/").objects)
    for number, info in enumerate(found):
        harness.scene.lake.read(harness.scene.repository, head, info, tmp_path / str(number))
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == [info.size for info in found]


def test_a_table_that_failed_its_checks_is_kept_as_the_jobs_wrote_it(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")

    def refuse(listing: Listing) -> None:
        raise PostGuardrailViolation(f"{len(listing.files)} files")

    scene, polled = harness.scene, harness.scene.start()
    task = RecordingTask(cast("Any", double), post=refuse)
    execution = scene.execution(polled.attempt, task, workspaces=harness.workspace)
    keep = KeepFailed(3600, "/in", "kept for 1h")
    outcome = transaction.run(replace(execution, keep_failed=keep), polled.input)
    assert str(outcome.reason).endswith("files; kept for 1h")
    (name,) = kept_gc.names(scene.lake, scene.repository)
    made = scene.lake.head(scene.repository, name.branch)
    assert made.parents == (a,)
    new = set(harness.paths(made.id)) - set(harness.paths(a))
    assert new
    assert all(path.startswith("in/out/part-") for path in new)
    assert harness.head().id == a
    assert scene.staging_branches() == []
    # A later attempt publishes, and the kept one stays as it is.
    assert completed(harness.run(double))
    assert scene.lake.head(scene.repository, name.branch) == made
