"""Spark tasks on a real cluster of two workers: killed executors, a killed driver, and speculative copies of tasks."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark import SparkContext
from tests.spark.test_attempts import completed
from tests.support import spark as spark_support
from tests.support.attempts import LakeFSAdmin
from tests.support.spark import SparkHarness
from tests.support.spark_cluster import Cluster, cluster, once
from tests.support.waiting import eventually

from perago import SparkWorkspace, events
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.model import LakeAccess, Outcome
from perago.spark import options, runtime
from perago.spark.driver import Driver

SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": spark_support.QUICK_JAVA,
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def two_workers(spark_runtime: runtime.SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(spark_runtime, tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def far(
    driver: Driver, spark_runtime: runtime.SparkRuntime, two_workers: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """A process has one driver, so that of the other tests is stopped."""
    driver.close()
    wanted = options.SparkOptions(tmp_path_factory.mktemp("far"), master=two_workers.url, properties=SPECULATIVE)
    made = Driver(wanted, lambda: spark_runtime)
    yield made
    made.close()


@pytest.fixture
def harness(stack: Endpoints, access: LakeAccess, far: Driver, fresh_name: Callable[[], str]) -> Iterator[SparkHarness]:
    server, name = LakeFSAdmin(stack), fresh_name()
    scene = server.scene(name)
    yield SparkHarness(scene, far, access)
    assert scene.staging_branches() == []
    server.remove(name)
    server.close()


def rows(workspace: SparkWorkspace, number: int, milliseconds: str) -> Any:
    """One row per task, each of which takes a while."""
    slept = f"java_method('java.lang.Thread', 'sleep', cast({milliseconds} as bigint))"
    return workspace.spark.range(0, number, 1, number).selectExpr("id", f"{slept} as slept")


def killed_tasks(workspace: SparkWorkspace) -> int:
    """The tasks that were killed because a copy of them was faster."""
    context: Any = workspace.spark.sparkContext
    nothing = context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList()
    stages = context._jsc.sc().statusStore().stageList(None, False, False, *nothing)
    return sum(stages.apply(number).numKilledTasks() for number in range(stages.size()))


def published(harness: SparkHarness, path: str) -> list[int]:
    """The ids that the branch shows, read by a separate attempt."""
    found: list[int] = []

    def body(workspace: SparkWorkspace) -> object:
        found.extend(row[0] for row in workspace.spark.read.parquet(workspace.input(path)).select("id").collect())
        return {}

    harness.scene.a = harness.head().id
    assert completed(harness.run(body, read_only=True))
    return sorted(found)


def test_tasks_that_race_their_own_copies_write_every_row_once(harness: SparkHarness) -> None:
    """The last task is slow enough to be started a second time elsewhere."""
    a, copies = harness.scene.a, list[int]()

    def body(workspace: SparkWorkspace) -> object:
        slow = rows(workspace, 8, "if(id = 7, 4000, 200)")
        slow.write.partitionBy("slept").mode("overwrite").parquet(workspace.output("out"))
        copies.append(killed_tasks(workspace))
        return {}

    assert completed(harness.run(body))
    assert copies[0] > 0
    assert harness.head().parents == (a,)
    assert published(harness, "out") == list(range(8))
    assert all("/part-" in path for path in harness.paths() if path.startswith("in/out"))


def run_and_kill_half_way(harness: SparkHarness, kill: Callable[[], object]) -> Outcome:
    """An attempt that writes twelve rows, one second of work each; `kill` is called after the second."""
    killed: list[object] = []

    def half_way() -> bool:
        told = [event for event in harness.heard if isinstance(event, events.Progress) and event.unit == "tasks"]
        return bool(told) and told[-1].files >= 2

    killer = threading.Thread(target=once, args=(half_way, lambda: killed.append(kill())))

    def body(workspace: SparkWorkspace) -> object:
        killer.start()
        rows(workspace, 12, "1000").write.parquet(workspace.output("out"))
        return {}

    outcome = harness.run(body)
    killer.join()
    assert killed
    return outcome


@pytest.mark.chaos
def test_an_executor_killed_in_the_middle_of_a_write_costs_time_only(harness: SparkHarness, two_workers: Cluster) -> None:
    assert completed(run_and_kill_half_way(harness, two_workers.kill_one_executor))
    assert published(harness, "out") == list(range(12))
    assert all("/part-" in path for path in harness.paths() if path.startswith("in/out"))


@pytest.mark.chaos
def test_a_driver_killed_in_the_middle_of_a_write_leaves_nothing_and_the_next_one_publishes(
    harness: SparkHarness, two_workers: Cluster
) -> None:
    """Executors on the cluster outlive their driver for a moment; what they still write belongs to no branch."""
    a = harness.scene.a
    outcome = run_and_kill_half_way(harness, kill_the_driver)
    assert outcome.status is TaskStatus.FAILED
    assert str(outcome.reason).startswith("the Spark driver was killed by SIGKILL (9) while the body ran")
    assert (harness.head().id, harness.scene.staging_branches()) == (a, [])
    eventually(lambda: not two_workers.executors(), within=60, what="the end of the executors")

    assert completed(harness.run(lambda workspace: rows(workspace, 3, "10").write.parquet(workspace.output("out")) or {}))
    assert harness.head().parents == (a,)
    assert published(harness, "out") == [0, 1, 2]


def kill_the_driver() -> bool:
    context: Any = SparkContext
    context._gateway.proc.kill()
    return True
