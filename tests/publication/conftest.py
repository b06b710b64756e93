"""The worker that the scenarios of a module share, and one with the other setting for commits that Perago did not make."""

from collections.abc import Iterator

import pytest
from tests.support import publication as worlds

from perago.dev.stack import Endpoints


@pytest.fixture(scope="module")
def world(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[worlds.World]:
    with worlds.world(stack, tmp_path_factory.mktemp("replacing")) as made:
        yield made


@pytest.fixture(scope="module")
def refusing(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[worlds.World]:
    """With PERAGO_UNLABELLED_HEAD=refuse."""
    with worlds.world(stack, tmp_path_factory.mktemp("refusing"), PERAGO_UNLABELLED_HEAD="refuse") as made:
        yield made


@pytest.fixture
def branch(world: worlds.World) -> worlds.Branch:
    return world.branch()
