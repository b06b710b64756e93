"""`site` runs a test on the in-memory lake and on a real lakeFS; `real` on the real one only, with its requests checked."""

from collections.abc import Callable, Generator

import pytest
from tests.support import openapi
from tests.support.lake_sites import MemorySite, RealSite, Site

from perago.dev.stack import Endpoints


@pytest.fixture
def real(stack: Endpoints, fresh_name: Callable[[], str]) -> Generator[RealSite]:
    with openapi.checked_requests(openapi.lakefs(stack.lakefs_url)):
        site = RealSite(stack, fresh_name())
        yield site
        site.close()


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def site(request: pytest.FixtureRequest) -> Site:
    return MemorySite() if request.param == "memory" else request.getfixturevalue("real")
