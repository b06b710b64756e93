"""`scene` runs a test on the in-memory lake and on a real lakeFS; `memory` and `real_scene` are one of them."""

from collections.abc import Callable, Generator

import pytest
from tests.support.attempts import AttemptScene, LakeFSAdmin, memory_scene

from perago.dev.stack import Endpoints


@pytest.fixture
def server(stack: Endpoints) -> Generator[LakeFSAdmin]:
    made = LakeFSAdmin(stack)
    yield made
    made.close()


@pytest.fixture
def real_scene(server: LakeFSAdmin, fresh_name: Callable[[], str]) -> Generator[AttemptScene]:
    name = fresh_name()
    yield server.scene(name)
    server.remove(name)


@pytest.fixture
def memory() -> AttemptScene:
    return memory_scene()


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def scene(request: pytest.FixtureRequest) -> AttemptScene:
    return memory_scene() if request.param == "memory" else request.getfixturevalue("real_scene")
