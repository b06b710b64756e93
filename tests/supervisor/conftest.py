"""One world per test, cleaned up whatever happened in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import worker as rigs

from perago.dev.stack import Endpoints


@pytest.fixture
def rig(stack: Endpoints, tmp_path: Path) -> Iterator[rigs.Rig]:
    with rigs.rig(stack, tmp_path / "rig") as made:
        yield made
