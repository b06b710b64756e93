import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from perago.errors import ProvisionError
from perago.process.stop_request import StopRequest, StopRequested
from perago.provision import cache, manifest
from perago.provision.cache import Cache, Recipe
from perago.provision.progress import Progress, quiet


@pytest.fixture
def stop_request() -> Generator[StopRequest]:
    token = StopRequest()
    yield token
    token.close()


@pytest.fixture
def store(tmp_path: Path, stop_request: StopRequest) -> Cache:
    return Cache(tmp_path / "cache", stop_request, quiet)


class Counted:
    """A small installer that leaves a line for every build."""

    def __init__(self, directory: Path, seconds: float = 0.0) -> None:
        self.builds = directory / "builds"
        self.seconds = seconds

    def recipe(self) -> Recipe:
        return Recipe("tool-1.0", "the tool", 1, self.build)

    def build(self, into: Path) -> None:
        with self.builds.open("a") as handle:
            handle.write(f"{os.getpid()}\n")
        (into / "half").write_bytes(b"1" * 100_000)
        time.sleep(self.seconds)
        (into / "other-half").write_bytes(b"2" * 100_000)

    def count(self) -> int:
        return len(self.builds.read_text().splitlines()) if self.builds.exists() else 0


def test_an_artifact_is_built_once(store: Cache, tmp_path: Path) -> None:
    tool = Counted(tmp_path)
    first = store.ensure(tool.recipe())
    assert store.ensure(tool.recipe()) == first
    assert sorted(path.name for path in first.iterdir()) == [manifest.NAME, "half", "other-half"]
    assert tool.count() == 1


@pytest.mark.parametrize("damage", ["truncate", "corrupt", "remove"])
def test_a_damaged_artifact_is_built_again(store: Cache, tmp_path: Path, damage: str) -> None:
    tool = Counted(tmp_path)
    victim = store.ensure(tool.recipe()) / "half"
    match damage:
        case "truncate":
            os.truncate(victim, 10)
        case "corrupt":
            victim.write_bytes(b"x" * 100_000)
        case _:
            victim.unlink()
    assert (store.ensure(tool.recipe()) / "half").read_bytes() == b"1" * 100_000
    assert tool.count() == 2


def test_a_failed_build_leaves_nothing_that_counts(store: Cache) -> None:
    def build(into: Path) -> None:
        (into / "half").write_bytes(b"1")
        raise ProvisionError("the registry is gone")

    with pytest.raises(ProvisionError, match="the registry is gone"):
        store.ensure(Recipe("tool-1.0", "the tool", 1, build))
    assert not store.path("tool-1.0").exists()
    assert not list((store.root / "work").iterdir())


def _ensure_in_child(root: Path, directory: Path, seconds: float) -> None:
    Cache(root, StopRequest(), quiet).ensure(Counted(directory, seconds).recipe())


def _wait_until(condition: object, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_processes_with_an_empty_cache_build_once(store: Cache, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_ensure_in_child, args=(store.root, tmp_path, 0.5)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
        assert one.exitcode == 0
        one.close()
    assert Counted(tmp_path).count() == 1
    assert manifest.intact(store.path("tool-1.0"))


def test_a_build_that_was_killed_is_swept_and_done_again(store: Cache, tmp_path: Path) -> None:
    tool = Counted(tmp_path)
    child = multiprocessing.get_context("spawn").Process(target=_ensure_in_child, args=(store.root, tmp_path, 60.0))
    child.start()
    _wait_until(lambda: tool.count() == 1)
    child.kill()
    child.join(10)
    child.close()
    assert len(list((store.root / "work").iterdir())) == 1
    assert not store.path("tool-1.0").exists()

    store.ensure(tool.recipe())
    assert tool.count() == 2
    assert not list((store.root / "work").iterdir())


def test_whoever_waits_for_another_build_can_be_stopped(store: Cache, tmp_path: Path, stop_request: StopRequest) -> None:
    def stop(news: Progress) -> None:
        if "waiting" in news.detail:
            stop_request.request(signal.SIGTERM)

    waiting = Cache(store.root, stop_request, stop)

    def build(into: Path) -> None:
        (into / "file").touch()
        with pytest.raises(StopRequested):
            waiting.ensure(Counted(tmp_path).recipe())

    store.ensure(Recipe("tool-1.0", "the tool", 1, build))
    assert Counted(tmp_path).count() == 0


def test_a_cache_directory_that_cannot_be_written_is_named(tmp_path: Path, stop_request: StopRequest) -> None:
    (tmp_path / "file").touch()
    store = Cache(tmp_path / "file" / "cache", stop_request, quiet)
    with pytest.raises(ProvisionError, match=r"cannot write to the cache directory .*/file/cache .*PERAGO_CACHE_DIR"):
        store.ensure(Counted(tmp_path).recipe())


def test_a_complete_artifact_is_used_even_when_nothing_can_be_written(store: Cache, tmp_path: Path) -> None:
    tool = Counted(tmp_path)
    path = store.ensure(tool.recipe())
    shutil.rmtree(store.root / "locks")
    (store.root / "locks").touch()
    assert store.ensure(tool.recipe()) == path


def test_too_little_disk_space_is_told_before_the_build(store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 30))
    tool = Counted(tmp_path)
    with pytest.raises(ProvisionError, match=r"the tool needs 3\.0 GiB of free disk, and .* has 1\.0 GiB"):
        store.ensure(Recipe("tool-1.0", "the tool", 3 << 30, tool.build))
    assert tool.count() == 0


def test_a_disk_that_fills_up_during_the_build_is_told_plainly(store: Cache) -> None:
    def build(into: Path) -> None:
        with Path("/dev/full").open("wb") as handle:
            handle.write(b"x")

    with pytest.raises(ProvisionError, match="no space left on the disk that holds"):
        store.ensure(Recipe("tool-1.0", "the tool", 1, build))


def test_the_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERAGO_CACHE_DIR", raising=False)
    assert cache.default_root() == tmp_path / "xdg" / "perago"
    monkeypatch.setenv("PERAGO_CACHE_DIR", str(tmp_path / "own"))
    assert cache.default_root() == tmp_path / "own"
