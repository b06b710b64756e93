"""Spark tasks in a real worker on real servers. The kill matrix has those that are killed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import worker_harness
from tests.support.waiting import eventually

from perago.dev.stack import Endpoints
from perago.model import CommitId, WorkflowId
from perago.spark.runtime import SparkRuntime

CRAWL = "tests.support.tasks.spark_crawl"


@pytest.fixture
def harness(stack: Endpoints, spark_runtime: SparkRuntime, tmp_path: Path) -> Iterator[worker_harness.WorkerHarness]:
    with worker_harness.open_harness(stack, tmp_path / "harness") as made:
        yield made


def crawl(harness: worker_harness.WorkerHarness, base: CommitId, milliseconds: int) -> WorkflowId:
    return harness.real.start_workflow([harness.step(CRAWL, "it", {"milliseconds": milliseconds}, harness.workspace(base))])


def start(harness: worker_harness.WorkerHarness) -> worker_harness.Worker:
    conf = harness.folder / "spark.conf"
    harness.folder.mkdir(exist_ok=True)
    conf.write_text("spark.master local[2]\nspark.driver.memory=512m\nspark.sql.codegen.wholeStage=false\n")
    worker = harness.launch(CRAWL, PERAGO_SPARK_CONF_FILE=str(conf))
    worker.until("worker started", within=200)
    eventually(worker.executors, within=60, what="an executor")
    return worker


def drivers(worker: worker_harness.Worker) -> list[int]:
    return [
        pid
        for executor in worker.executors()
        for pid in worker_harness.children(executor)
        if b"java" in worker_harness.command(pid)
    ]


def in_stage(worker: worker_harness.Worker) -> bool:
    """The body's tasks are counted by now."""
    return any("tasks" in str(line.get("note", "")) for line in worker.said("progress"))


def test_a_spark_attempt_is_cancelled_and_the_next_one_uses_its_driver(harness: worker_harness.WorkerHarness) -> None:
    base = harness.seed()
    worker = start(harness)
    assert len(drivers(worker)) == 1

    unwanted = crawl(harness, base, 100_000)
    eventually(lambda: in_stage(worker), within=100, what="a running stage")
    harness.real.terminate(unwanted)
    cancelled = worker.until("attempt cancelled", within=30)
    assert cancelled
    at = time.monotonic()
    worker.until("attempt", within=30)
    assert time.monotonic() - at < 5
    assert len(drivers(worker)) == 1, "the driver stays warm"

    wanted = crawl(harness, base, 100)
    assert harness.ended(wanted, within=200) == "COMPLETED"
    last: dict[str, Any] = harness.tasks(wanted)[-1]
    assert last["outputData"]["result"] == {"rows": 4}
    assert harness.head().parents == (base,)
    assert harness.staging_branches() == []

    assert worker.stop() == 0
    assert not list((harness.folder / "cache" / "spark").iterdir())
