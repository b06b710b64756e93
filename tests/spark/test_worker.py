"""Spark tasks under a real worker on real servers: called off, killed, retried."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import worker as rigs

from perago.dev.stack import Endpoints
from perago.model import CommitId, WorkflowId
from perago.spark.runtime import Runtime

CRAWL = "tests.support.tasks.spark_crawl"


@pytest.fixture
def rig(stack: Endpoints, spark_runtime: Runtime, tmp_path: Path) -> Iterator[rigs.Rig]:
    with rigs.rig(stack, tmp_path / "rig") as made:
        yield made


def crawl(rig: rigs.Rig, base: CommitId, milliseconds: int) -> WorkflowId:
    return rig.real.start_workflow([rig.step(CRAWL, "it", {"milliseconds": milliseconds}, rig.workspace(base))])


def start(rig: rigs.Rig) -> rigs.Worker:
    conf = rig.folder / "spark.conf"
    rig.folder.mkdir(exist_ok=True)
    conf.write_text("spark.master local[2]\nspark.driver.memory=512m\n")
    worker = rig.launch(CRAWL, PERAGO_SPARK_CONF_FILE=str(conf))
    worker.until("worker started", within=200)
    rigs.eventually(worker.executors, within=60, what="an executor")
    return worker


def drivers(worker: rigs.Worker) -> list[int]:
    return [pid for executor in worker.executors() for pid in rigs.children(executor) if b"java" in rigs.command(pid)]


def in_stage(worker: rigs.Worker) -> bool:
    """The body's tasks are counted by now."""
    return any("tasks" in str(line.get("note", "")) for line in worker.said("progress"))


def test_a_spark_attempt_is_called_off_killed_and_retried(rig: rigs.Rig) -> None:
    base = rig.seed()
    worker = start(rig)
    assert len(drivers(worker)) == 1

    unwanted = crawl(rig, base, 100_000)
    rigs.eventually(lambda: in_stage(worker), within=100, what="a running stage")
    rig.real.terminate(unwanted)
    called_off = worker.until("attempt called off", within=30)
    assert called_off
    at = time.monotonic()
    worker.until("attempt", within=30)
    assert time.monotonic() - at < 5
    assert len(drivers(worker)) == 1, "the driver stays warm"

    wanted = crawl(rig, base, 3_000)
    rigs.eventually(rig.staging_branches, within=60, what="a staging branch")
    left = drivers(worker)
    worker.kill()
    rigs.eventually(lambda: not any(map(rigs.alive, left)), within=30, what="the end of the driver")

    start(rig)
    assert rig.ended(wanted, within=200) == "COMPLETED"
    last: dict[str, Any] = rig.tasks(wanted)[-1]
    assert last["outputData"]["result"] == {"rows": 4}
    assert rig.head().parents == (base,)
    assert rig.staging_branches() == []
