"""Fixtures and rules for every test: the servers of the run, unique names, and the markers that select tests by speed.

`server` marks tests that need Conductor, lakeFS, Spark or a program that may have to be fetched first. It is added to every test
that uses one of `SERVER_FIXTURES`; a fixture that needs a server only for some of its parameters marks those parameters. A test
without the marker fails if it uses the servers of the run or connects to another machine. `slow` (no server, but many seconds)
and `chaos` (full kill matrices) are set by hand.
"""

import itertools
import os
import re
import secrets
import signal
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.support import spark as spark_support
from tests.support import worker_harness
from tests.support.leftovers import RunTraces
from tests.support.progress import ProgressLines
from tests.support.scheduling import SharedStartScheduling

from perago.dev import stack as stacks
from perago.errors import SetupError
from perago.provision.progress import InstallProgress
from perago.spark import runtime

TESTS = Path(__file__).parent
SLOW_TESTS = TESTS / "simulation"
LONG_TESTS = {*(TESTS / name for name in ("cli", "dev", "docs", "executor", "publication", "spark", "supervisor")), SLOW_TESTS}
LONGEST_TESTS = {
    *TESTS.rglob("test_kill*.py"),
    *(
        TESTS / name
        for name in (
            "examples/test_demo_backfill.py",
            "pipeline/test_random_pipelines.py",
            "cli/test_run.py",
            "certify/test_certify.py",
        )
    ),
}
SERVER_FIXTURES = frozenset({"stack", "installed_servers", "spark_runtime", "checker"})
_REUSE = "PERAGO_TEST_STACK"
_STARTED_HERE: list[stacks.Stack] = []
_CURRENT_TEST: list[pytest.Item] = []
_LEFT_BEHIND = pytest.StashKey[list[str]]()
_TRACES = pytest.StashKey[RunTraces]()

# The same examples on every machine, so that a result depends on the change alone;
# `--hypothesis-profile=explore` looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=200)
settings.load_profile("steady")

# A shell without job control starts background jobs with these ignored, and every program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """With xdist the controller starts the servers, because no single worker process lives as long as the run."""
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(name, spark_support.QUICK_JAVA)
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(ProgressLines(config), "progress-lines")
    config.stash[_TRACES] = RunTraces()
    if config.getoption("numprocesses", None) and "not server" not in config.option.markexpr:
        _start(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Adds `server`, before `-m` deselects. What takes minutes runs first, so that it is not the last to begin."""
    for item in items:
        if SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)
        if item.path.is_relative_to(SLOW_TESTS):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)  # tracing would double the time, and quicker tests cover the same lines
    items.sort(key=lambda item: (item.path not in LONGEST_TESTS, item.path.parent not in LONG_TESTS))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedStartScheduling | None:
    return SharedStartScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts what the collected tests need before the first of them runs, because installing takes longer than a test may."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly:
        return
    if "stack" in wanted:
        _start(session.config)
    if "installed_servers" in wanted:
        _or_fail_the_run(lambda: stacks.install(report=_reporter(session.config)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remembers which test runs; one without the marker cannot connect to another machine."""
    _CURRENT_TEST[:] = [item]
    if item.get_closest_marker("server"):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _connect_to_this_machine)
        return (yield)


def _connect_to_this_machine(connection: socket.socket, address: Any) -> None:
    if isinstance(address, tuple) and address[0] not in {"127.0.0.1", "::1", "localhost"}:
        raise AssertionError(f"a test without the marker 'server' connects to {address[0]}")
    _CONNECT(connection, address)


_CONNECT = socket.socket.connect


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stops the servers; the run fails if it leaves a process or a directory behind."""
    while _STARTED_HERE:
        del os.environ[_REUSE]
        _STARTED_HERE.pop().stop()
    traces = session.config.stash.get(_TRACES, None)
    if traces is not None:
        session.config.stash[_LEFT_BEHIND] = left = traces.all()
        traces.close()
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_BEHIND, []):
        terminalreporter.write_line(line, red=True)
    coverage: Any = config.pluginmanager.get_plugin("_cov")
    total = getattr(coverage, "cov_total", None)
    floor = getattr(getattr(coverage, "options", None), "cov_fail_under", None)
    if total is not None and floor is not None and total >= floor + 1:
        terminalreporter.write_line(f"coverage is {total:.1f} %: raise fail_under in pyproject.toml to {int(total)}")


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


def _reporter(config: pytest.Config) -> Callable[[InstallProgress], None]:
    """Names each long step as it begins: with an empty cache some take minutes."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    said: set[str] = set()

    def report(news: InstallProgress) -> None:
        if terminal is not None and news.step not in said:
            said.add(news.step)
            terminal.write_line(news.step)

    return report


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> stacks.Endpoints:
    """The servers of this run; those of PERAGO_TEST_STACK (a file written by `perago dev --json`) if it is set."""
    if not any(item.get_closest_marker("server") for item in _CURRENT_TEST):
        pytest.fail("a test without the marker 'server' uses the servers of the run")
    _start(request.config)  # where only tests were collected that choose their server while they run
    return stacks.Endpoints.from_json(Path(os.environ[_REUSE]).read_text())


@pytest.fixture(scope="session")
def installed_servers() -> None:
    """Both servers are in the cache: for tests that start their own."""


@pytest.fixture(scope="session")
def spark_runtime() -> runtime.SparkRuntime:
    """What a driver needs."""
    return runtime.ensure()


@pytest.fixture(scope="session")
def own_stack(installed_servers: None) -> Iterator[stacks.Stack]:
    """Servers that tests may kill, as long as they start them again."""
    with stacks.Stack() as started:
        yield started


@pytest.fixture
def harness(stack: stacks.Endpoints, tmp_path: Path) -> Iterator[worker_harness.WorkerHarness]:
    """Workers on the servers of the run, with task types, a repository and directories of their own."""
    with worker_harness.open_harness(stack, tmp_path / "harness") as made:
        yield made


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for repositories, branches, task types and workflows that no other test or run uses."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    names = (f"{test}-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))
    return lambda: next(names)
