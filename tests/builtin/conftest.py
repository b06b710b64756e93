"""`lanes` runs a test on the in-memory lake and on a real lakeFS; `memory` and `real` are one of them."""

from collections.abc import Callable, Generator

import pytest
from tests.support.attempts import LakeFSAdmin, memory_scene
from tests.support.lanes import LaneScene

from perago.dev.stack import Endpoints


@pytest.fixture
def real(stack: Endpoints, fresh_name: Callable[[], str]) -> Generator[LaneScene]:
    server, name = LakeFSAdmin(stack), fresh_name()
    yield LaneScene(server.scene(name))
    server.remove(name)
    server.close()


@pytest.fixture
def memory() -> LaneScene:
    return LaneScene(memory_scene())


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def lanes(request: pytest.FixtureRequest) -> LaneScene:
    return LaneScene(memory_scene()) if request.param == "memory" else request.getfixturevalue("real")
