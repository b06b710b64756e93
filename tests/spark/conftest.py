"""One running driver for all tests that use `harness`: starting a JVM takes longer than any of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.attempts import LakeFSAdmin
from tests.support.spark import SparkHarness

from perago.dev.stack import Endpoints
from perago.model import LakeAccess
from perago.process.stop_request import StopRequest
from perago.provision import maven
from perago.provision.artifact_cache import ArtifactCache, default_root
from perago.provision.progress import quiet
from perago.spark import options, runtime
from perago.spark.driver import Driver

HERE = Path(__file__).parent
DELTA = {
    "io.delta:delta-spark_4.2_2.13:4.4.0": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "io.delta:delta-storage:4.4.0": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}
SMALL = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
WITH_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longer timeouts: the first test of a run waits for a JVM, on a machine that may be busy."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(400))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Downloads Spark before the first test, because that may take longer than the timeout of a test."""
    if not session.config.option.collectonly and any(
        "spark_runtime" in getattr(item, "fixturenames", ()) for item in session.items
    ):
        runtime.ensure()


@pytest.fixture(scope="session")
def driver(spark_runtime: runtime.SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    scratch: Path = tmp_path_factory.mktemp("spark")
    cache = ArtifactCache(default_root(), StopRequest(), quiet)
    jars = ",".join(str(maven.jar(cache, coordinates, sha256)) for coordinates, sha256 in DELTA.items())
    properties = {**SMALL, **WITH_DELTA, "spark.jars": jars}
    made = Driver(options.SparkOptions(scratch, properties=properties), lambda: spark_runtime)
    yield made
    made.close()
    assert list(scratch.iterdir()) == []


@pytest.fixture
def access(stack: Endpoints) -> LakeAccess:
    return LakeAccess(stack.s3_url, stack.access_key_id, stack.secret_access_key)


@pytest.fixture
def harness(stack: Endpoints, access: LakeAccess, driver: Driver, fresh_name: Callable[[], str]) -> Iterator[SparkHarness]:
    server, name = LakeFSAdmin(stack), fresh_name()
    scene = server.scene(name)
    yield SparkHarness(scene, driver, access)
    assert scene.staging_branches() == []
    server.remove(name)
    server.close()
