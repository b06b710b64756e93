"""What every test may ask for: `stack`, one real Conductor and one real lakeFS per test run, and names nobody else uses."""

import itertools
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from perago.dev import stack as stacks
from perago.errors import SetupError
from perago.provision.progress import Progress

_REUSE = "PERAGO_TEST_STACK"
_STARTED_HERE: list[stacks.Stack] = []

# The same examples on every machine, so that a change is judged by what it changed;
# `--hypothesis-profile=explore` looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    """With xdist the controller starts the servers, because no single worker lives as long as the run."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        _start(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kill matrices first: each takes minutes, and the last file to begin decides when everything has ended."""
    items.sort(key=lambda item: not item.path.name.startswith("test_kill"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts what the collected tests need before the first of them runs, because installing takes longer than a test may."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly:
        return
    if "stack" in wanted:
        _start(session.config)
    if "installed" in wanted:
        _or_fail_the_run(lambda: stacks.install(report=_reporter(session.config)))


def pytest_unconfigure() -> None:
    while _STARTED_HERE:
        del os.environ[_REUSE]
        _STARTED_HERE.pop().stop()


def _start(config: pytest.Config) -> None:
    if _REUSE in os.environ:
        return
    stack = stacks.Stack(report=_reporter(config))
    _or_fail_the_run(stack.start)
    _STARTED_HERE.append(stack)
    shared = stack.data_dir / "endpoints.json"
    shared.touch(mode=0o600)
    shared.write_text(stack.endpoints.to_json())
    os.environ[_REUSE] = str(shared)


def _or_fail_the_run(action: Callable[[], None]) -> None:
    try:
        action()
    except SetupError as error:
        pytest.exit(f"error: {error}", returncode=1)


def _reporter(config: pytest.Config) -> Callable[[Progress], None]:
    """Says which long step begins: an empty cache keeps people waiting for minutes."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    said: set[str] = set()

    def report(news: Progress) -> None:
        if terminal is not None and news.step not in said:
            said.add(news.step)
            terminal.write_line(news.step)

    return report


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> stacks.Endpoints:
    """The servers of this run; those of PERAGO_TEST_STACK (a file written by `perago dev --json`) if it is set."""
    _start(request.config)  # where only tests were collected that choose their server while they run
    return stacks.Endpoints.from_json(Path(os.environ[_REUSE]).read_text())


@pytest.fixture(scope="session")
def installed() -> None:
    """Both servers are in the cache: for tests that start their own."""


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for repositories, branches, task types and workflows that no other test or run uses."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    names = (f"{test}-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))
    return lambda: next(names)
