from collections.abc import Generator

import pytest
from tests.support.workflow_driver import WorkflowDriver

from perago.dev.stack import Endpoints


@pytest.fixture
def driver(stack: Endpoints) -> Generator[WorkflowDriver]:
    made = WorkflowDriver(stack.conductor_url)
    yield made
    made.close()
