"""What every test may ask for: `stack`, one real Conductor and one real lakeFS per test run, and names nobody else uses."""

import itertools
import os
import re
import secrets
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from perago.dev.stack import Endpoints, Stack

_REUSE = "PERAGO_TEST_STACK"
_STARTED_HERE: list[Stack] = []


def pytest_configure(config: pytest.Config) -> None:
    """With xdist the controller starts the servers, because no single worker lives as long as the run."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None) or _REUSE in os.environ:
        return
    stack = Stack()
    stack.start()
    _STARTED_HERE.append(stack)
    shared = stack.data_dir / "endpoints.json"
    shared.touch(mode=0o600)
    shared.write_text(stack.endpoints.to_json())
    os.environ[_REUSE] = str(shared)


def pytest_unconfigure() -> None:
    while _STARTED_HERE:
        _STARTED_HERE.pop().stop()
        del os.environ[_REUSE]


@pytest.fixture(scope="session")
def stack() -> Generator[Endpoints]:
    """The servers of this run; those of PERAGO_TEST_STACK (a file written by `perago dev --json`) if it is set."""
    if reused := os.environ.get(_REUSE):
        yield Endpoints.from_json(Path(reused).read_text())
        return
    with Stack() as started:
        yield started.endpoints


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for repositories, branches, task types and workflows that no other test or run uses."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    names = (f"{test}-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))
    return lambda: next(names)
