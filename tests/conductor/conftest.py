"""`site` runs a test on the in-memory Conductor and on a real one; `real` on the real one only, with its requests checked."""

from collections.abc import Generator

import pytest
from tests.support import openapi
from tests.support.conductor_sites import ConductorSite, FakeConductorSite, RealConductorSite

from perago.dev.stack import Endpoints


@pytest.fixture
def real(stack: Endpoints) -> Generator[RealConductorSite]:
    with openapi.checked_requests(openapi.conductor(stack.conductor_url)):
        site = RealConductorSite(stack.conductor_url)
        yield site
        site.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.server)])
def site(request: pytest.FixtureRequest) -> ConductorSite:
    return FakeConductorSite() if request.param == "fake" else request.getfixturevalue("real")
