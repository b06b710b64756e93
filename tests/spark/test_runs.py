"""Spark tasks run on plain files: `run_task`, `run_pipeline` and `perago run`, without lakeFS."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel

from perago import (
    Between,
    Flow,
    PostGuardrailViolation,
    SparkWorkspace,
    Table,
    Unique,
    WorkspaceSpec,
    pipeline,
    require_glob,
    require_table,
    task,
)
from perago.local_run import environment
from perago.spark.driver import Driver
from perago.testing import run_pipeline, run_task


@pytest.fixture(scope="module", autouse=True)
def drivers_of_their_own(driver: Driver) -> Iterator[None]:
    """A process has one driver, so that of the other tests is stopped before these tests, and theirs afterwards."""
    driver.close()
    yield
    environment.shared_spark().close()


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


@pipeline(name="t.grow_twice", owner_email="a@example.com")
def grow_twice(flow: Flow) -> Output:
    first = flow.step(grow, ref="first")
    second = flow.step(grow, ref="second")
    return Output(was=first.was, now=second.now)


def test_the_spark_tasks_of_a_pipeline_share_one_driver() -> None:
    done = run_pipeline(grow_twice, files={"in/raw/a.csv": "1\n2\n"})
    assert done.ok, done.report()
    assert done.result == Output(was=2, now=8)
    assert done.steps["second"].result == {"was": 4, "now": 8}
    assert done.deleted == ["in/raw/a.csv"]


COUNT = """
from pathlib import Path
from pydantic import BaseModel
from perago import SparkWorkspace, WorkspaceSpec, task

class Params(BaseModel):
    pass

class Output(BaseModel):
    rows: int

@task(name="t.count", owner_email="a@example.com", workspace=WorkspaceSpec())
def count(workspace: SparkWorkspace, params: Params) -> Output:
    Path("lost.csv").write_text("1")
    return Output(rows=workspace.spark.read.csv(workspace.input("raw")).count())
"""


def test_perago_run_says_that_spark_starts_and_names_the_files_in_its_scratch_directory(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "in" / "raw").mkdir(parents=True)
    (tmp_path / "in" / "raw" / "a.csv").write_text("1\n2\n")
    (tmp_path / "temporary").mkdir()
    command = [Path(sys.executable).with_name("perago"), "run", "count", "-w", "in"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "TMPDIR": str(tmp_path / "temporary")}
    leader, follower = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=follower, text=True) as process:
        os.close(follower)
        shown = b"".join(iter(lambda: read_terminal(leader), b"")).decode()
        output = process.communicate(timeout=100)[0]
    os.close(leader)
    assert process.returncode == 0, shown[-500:]
    assert 'result: {"rows": 2}' in output
    assert "starting Spark" in shown
    assert "opening a Spark session" in shown
    assert "which are not published: lost.csv; write to workspace.output(...)" in shown
    assert [path.name for path in (tmp_path / "temporary").iterdir() if not path.name.startswith("hsperfdata")] == []


def read_terminal(leader: int) -> bytes:
    try:
        return os.read(leader, 4096)
    except OSError:  # Linux reports EIO once the other end is closed
        return b""


class Row(Table):
    id: Annotated[int, Unique(), Between(0, 9)]


@task(
    name="t.table",
    owner_email="a@example.com",
    workspace=WorkspaceSpec(
        prefix="/in", pre=[require_table("limit.csv", rows=(1, 1))], post=[require_table("out", Row, rows_change=(1, None))]
    ),
)
def write_table(workspace: SparkWorkspace, params: Params) -> Params:
    limit = int(workspace.read_text("limit.csv").splitlines()[1])
    workspace.spark.range(limit).write.mode("overwrite").parquet(workspace.output("out"))
    return params


def test_data_checks_are_evaluated_by_spark() -> None:
    run = run_task(write_table, files={"limit.csv": "rows\n10\n"})
    assert run.ok, run.report()
    again = run_task(write_table, files={**run.files, "limit.csv": b"rows\n5\n"})
    assert again.reason == (
        "post guardrail require_table('out') has 5 rows, 0.5 times the 10 of the input commit, not at least 1"
    )
    run = run_task(write_table, files={"limit.csv": "rows\n12\n"})
    assert run.reason.endswith("2 of 12 rows are not between 0 and 9 in column id: id 10, 11")
    assert isinstance(run.error, PostGuardrailViolation)
