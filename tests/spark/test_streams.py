"""How S3A reads an object: a small one whole, a large one by ranges."""

from typing import Any

import pytest
from tests.support.spark import SparkHarness

from perago import SparkWorkspace
from perago.errors import TaskStatus

MIB = 1 << 20


def reader(workspace: SparkWorkspace, path: str) -> tuple[str, int]:
    """The class that S3A reads the file with, and how many bytes it reads."""
    spark: Any = workspace.spark
    uri = spark._jvm.org.apache.hadoop.fs.Path(workspace.input(path))
    stream = uri.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(uri)
    kind = stream.getWrappedStream().getClass().getSimpleName()
    skipped = stream.skip(64 * MIB)
    stream.close()
    return kind, skipped


@pytest.mark.parametrize(
    ("size", "kind"), [(10, "S3APrefetchingInputStream"), (8 * MIB, "S3APrefetchingInputStream"), (8 * MIB + 1, "S3AInputStream")]
)
def test_the_size_of_an_object_decides_how_it_is_read(harness: SparkHarness, size: int, kind: str) -> None:
    harness.scene.a = harness.scene.publish({"in/data": bytes(size)}).id
    seen: list[tuple[str, int]] = []

    def look(workspace: SparkWorkspace) -> object:
        seen.append(reader(workspace, "data"))
        (row,) = workspace.spark.read.format("binaryFile").load(workspace.input("data")).select("length").collect()
        return {"bytes": row["length"]}

    outcome = harness.run(look, read_only=True)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert outcome.output is not None
    assert outcome.output["result"] == {"bytes": size}
    assert seen == [(kind, size)]
