"""`bed`: every test that takes it runs on the in-memory lake and on a real lakeFS; `memory` and `real_bed` are one of them."""

from collections.abc import Callable, Generator

import pytest
from tests.support.attempts import Bed, Server, memory_bed

from perago.dev.stack import Endpoints


@pytest.fixture
def server(stack: Endpoints) -> Generator[Server]:
    made = Server(stack)
    yield made
    made.close()


@pytest.fixture
def real_bed(server: Server, fresh_name: Callable[[], str]) -> Generator[Bed]:
    name = fresh_name()
    yield server.bed(name)
    server.remove(name)


@pytest.fixture
def memory() -> Bed:
    return memory_bed()


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def bed(request: pytest.FixtureRequest) -> Bed:
    return memory_bed() if request.param == "memory" else request.getfixturevalue("real_bed")
