from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.support import workspaces

from perago.dev.stack import Endpoints


@pytest.fixture
def server_lab(stack: Endpoints, fresh_name: Callable[[], str]) -> Generator[workspaces.ServerLab]:
    lab = workspaces.ServerLab(stack, fresh_name())
    yield lab
    lab.close()


@pytest.fixture
def memory_lab() -> workspaces.MemoryLab:
    return workspaces.MemoryLab()


@pytest.fixture(params=["memory", pytest.param("lakefs", marks=pytest.mark.server)])
def lab(request: pytest.FixtureRequest) -> workspaces.Lab:
    """The same test on the fake and on a real lakeFS."""
    return request.getfixturevalue("memory_lab" if request.param == "memory" else "server_lab")


@pytest.fixture
def bench(lab: workspaces.Lab, tmp_path: Path) -> Generator[workspaces.Bench]:
    yield workspaces.Bench(lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def memory_bench(memory_lab: workspaces.MemoryLab, tmp_path: Path) -> Generator[workspaces.Bench]:
    yield workspaces.Bench(memory_lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def server_bench(server_lab: workspaces.ServerLab, tmp_path: Path) -> Generator[workspaces.Bench]:
    yield workspaces.Bench(server_lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


def assert_nothing_left(root: Path) -> None:
    left = [path.name for path in root.iterdir() if path.name != ".cache"] if root.exists() else []
    assert left == []
