from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.workspace import kit

from perago.dev.stack import Endpoints


@pytest.fixture
def server_lab(stack: Endpoints, fresh_name: Callable[[], str]) -> Generator[kit.ServerLab]:
    lab = kit.ServerLab(stack, fresh_name())
    yield lab
    lab.close()


@pytest.fixture
def memory_lab() -> kit.MemoryLab:
    return kit.MemoryLab()


@pytest.fixture(params=["memory", "lakefs"])
def lab(request: pytest.FixtureRequest) -> kit.Lab:
    """The same test on the fake and on a real lakeFS."""
    return request.getfixturevalue("memory_lab" if request.param == "memory" else "server_lab")


@pytest.fixture
def bench(lab: kit.Lab, tmp_path: Path) -> Generator[kit.Bench]:
    yield kit.Bench(lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def memory_bench(memory_lab: kit.MemoryLab, tmp_path: Path) -> Generator[kit.Bench]:
    yield kit.Bench(memory_lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


@pytest.fixture
def server_bench(server_lab: kit.ServerLab, tmp_path: Path) -> Generator[kit.Bench]:
    yield kit.Bench(server_lab, tmp_path / "scratch")
    assert_nothing_left(tmp_path / "scratch")


def assert_nothing_left(root: Path) -> None:
    left = [path.name for path in root.iterdir() if path.name != ".cache"] if root.exists() else []
    assert left == []
