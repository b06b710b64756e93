"""`harness`: a separate repository on the real servers."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.support import operator

from perago.dev.stack import Endpoints


@pytest.fixture
def harness(stack: Endpoints, fresh_name: Callable[[], str], tmp_path: Path) -> Generator[operator.OperatorHarness]:
    with operator.open_harness(stack, tmp_path, fresh_name()) as made:
        yield made
