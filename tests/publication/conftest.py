"""The worker that the scenarios of a module share, and one with the other setting for commits that Perago did not make."""

from collections.abc import Iterator

import pytest
from tests.support import publication

from perago.dev.stack import Endpoints


@pytest.fixture(scope="module")
def harness(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[publication.PublicationHarness]:
    with publication.open_harness(stack, tmp_path_factory.mktemp("replacing")) as made:
        yield made


@pytest.fixture(scope="module")
def refusing(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[publication.PublicationHarness]:
    """With PERAGO_UNLABELLED_HEAD=refuse."""
    with publication.open_harness(stack, tmp_path_factory.mktemp("refusing"), PERAGO_UNLABELLED_HEAD="refuse") as made:
        yield made


@pytest.fixture
def branch(harness: publication.PublicationHarness) -> publication.TargetBranch:
    return harness.branch()
