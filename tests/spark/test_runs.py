"""Spark tasks run on plain files: `run_task` and `perago run`, without lakeFS."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from perago import SparkWorkspace, WorkspaceSpec, require_glob, task
from perago.local_run import environment
from perago.spark.driver import Driver
from perago.testing import run_task


@pytest.fixture(scope="module", autouse=True)
def drivers_of_their_own(driver: Driver) -> Iterator[None]:
    """A process has one driver, so that of the other tests is stopped before these tests, and theirs afterwards."""
    driver.close()
    yield
    environment._spark().close()


class Params(BaseModel):
    pass


class Output(BaseModel):
    was: int
    now: int


@task(
    name="t.grow",
    owner_email="a@example.com",
    workspace=WorkspaceSpec(prefix="/in", pre=[require_glob("raw/*.csv")], post=[require_glob("raw/part-*.csv")]),
)
def grow(workspace: SparkWorkspace, params: Params) -> Output:
    rows = workspace.spark.read.csv(workspace.input("raw"))
    rows.union(rows).write.mode("overwrite").csv(workspace.output("raw"))
    workspace.write_text("note.txt", ", ".join(workspace.list("raw/*")))
    return Output(was=rows.count(), now=workspace.spark.read.csv(workspace.output("raw")).count())


@task(name="t.look", owner_email="a@example.com", workspace=WorkspaceSpec(read_only=True))
def look(workspace: SparkWorkspace, params: Params) -> Output:
    workspace.output("out")
    raise AssertionError


def test_a_spark_task_runs_on_a_folder_and_nothing_of_spark_is_left_in_it() -> None:
    done = run_task(grow, files={"raw/a.csv": "1\n2\n", "keep.txt": "kept"})
    assert done.ok, done.report()
    assert done.result == {"was": 2, "now": 4}
    assert done.deleted == ["raw/a.csv"]
    assert [path.partition("-")[0] for path in done.added] == ["note.txt", *["raw/part"] * (len(done.added) - 1)]
    assert all(path.endswith(".csv") for path in done.added[1:])
    assert "keep.txt" in done.files
    refused = run_task(look, files={"a": "b"})
    assert "read-only" in refused.reason
