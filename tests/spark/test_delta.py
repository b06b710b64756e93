"""A table format on a staging branch: written there with its own log, then published with everything else."""

from tests.spark.test_attempts import completed
from tests.support.spark import SparkHarness

from perago import SparkWorkspace


def test_a_delta_table_is_written_changed_and_published(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")

    def make(workspace: SparkWorkspace) -> object:
        rows = workspace.spark.read.csv(workspace.input("raw"), schema="id int, kind string")
        for _ in range(2):
            rows.write.format("delta").mode("append").partitionBy("kind").save(workspace.output("table"))
        return {"rows": workspace.spark.read.format("delta").load(workspace.output("table")).count()}

    def change(workspace: SparkWorkspace) -> object:
        workspace.spark.sql(f"delete from delta.`{workspace.output('table')}` where id < 5")
        rows = workspace.spark.read.format("delta")
        old = rows.option("versionAsOf", 0).load(workspace.output("table"))
        return {"rows": rows.load(workspace.output("table")).count(), "first": old.count()}

    made = harness.run(make)
    assert completed(made)
    assert made.output is not None
    assert made.output["result"] == {"rows": 20}
    assert harness.head().parents == (a,)
    harness.scene.a = harness.head().id
    changed = harness.run(change)
    assert completed(changed)
    assert changed.output is not None
    assert changed.output["result"] == {"rows": 10, "first": 10}
    logs = [path.rpartition("/")[2] for path in harness.paths() if path.startswith("in/table/_delta_log/")]
    assert [name for name in logs if name.endswith(".json")] == [f"{version:020d}.json" for version in range(3)]
    assert "other" in harness.paths()
