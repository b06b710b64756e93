"""One warm driver for all tests that take `desk`: starting a JVM costs more than any of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attempt.bed import Server
from tests.spark.kit import Desk

from perago.dev.stack import Endpoints
from perago.spark import options, runtime
from perago.spark.driver import Driver

SMALL = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def needed() -> runtime.Runtime:
    return runtime.ensure()


@pytest.fixture(scope="session")
def driver(needed: runtime.Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    scratch: Path = tmp_path_factory.mktemp("spark")
    made = Driver(options.Options(scratch, properties=SMALL), lambda: needed)
    yield made
    made.close()
    assert list(scratch.iterdir()) == []


@pytest.fixture
def access(stack: Endpoints) -> options.Access:
    return options.Access(stack.s3_url, stack.access_key_id, stack.secret_access_key)


@pytest.fixture
def desk(stack: Endpoints, access: options.Access, driver: Driver, fresh_name: Callable[[], str]) -> Iterator[Desk]:
    server, name = Server(stack), fresh_name()
    bed = server.bed(name)
    yield Desk(bed, driver, access)
    assert bed.staging_branches() == []
    server.remove(name)
    server.close()
