from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.dev.stack import Endpoints


@pytest.fixture
def server_setup(stack: Endpoints, fresh_name: Callable[[], str]) -> Generator[workspaces.ServerLakeSetup]:
    setup = workspaces.ServerLakeSetup(stack, fresh_name())
    yield setup
    setup.close()


@pytest.fixture
def memory_setup() -> workspaces.MemoryLakeSetup:
    return workspaces.MemoryLakeSetup()


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def setup(request: pytest.FixtureRequest) -> workspaces.LakeSetup:
    """The same test on the in-memory lake and on a real lakeFS."""
    return request.getfixturevalue("memory_setup" if request.param == "memory" else "server_setup")


@pytest.fixture
def harness(setup: workspaces.LakeSetup, tmp_path: Path) -> Generator[workspaces.WorkspaceHarness]:
    yield workspaces.WorkspaceHarness(setup, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def memory_harness(memory_setup: workspaces.MemoryLakeSetup, tmp_path: Path) -> Generator[workspaces.WorkspaceHarness]:
    yield workspaces.WorkspaceHarness(memory_setup, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def server_harness(server_setup: workspaces.ServerLakeSetup, tmp_path: Path) -> Generator[workspaces.WorkspaceHarness]:
    yield workspaces.WorkspaceHarness(server_setup, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


def assert_nothing_left(root: Path) -> None:
    left = [path.name for path in root.iterdir() if path.name != ".cache"] if root.exists() else []
    assert left == []
