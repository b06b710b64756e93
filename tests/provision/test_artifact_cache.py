import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.waiting import eventually

from perago.errors import ProvisionError
from perago.process.stop_request import StopRequest, StopRequested
from perago.provision import artifact_cache, manifest
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.progress import InstallProgress, quiet


@pytest.fixture
def stop_request() -> Generator[StopRequest]:
    made = StopRequest()
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path, stop_request: StopRequest) -> ArtifactCache:
    return ArtifactCache(tmp_path / "cache", stop_request, quiet)


class CountedBuild:
    """An artifact that counts its builds in a file."""

    def __init__(self, directory: Path, seconds: float = 0.0) -> None:
        self.builds = directory / "builds"
        self.seconds = seconds

    def artifact(self) -> Artifact:
        return Artifact("tool-1.0", "the tool", 1, self.build)

    def build(self, into: Path) -> None:
        with self.builds.open("a") as handle:
            handle.write(f"{os.getpid()}\n")
        (into / "half").write_bytes(b"1" * 100_000)
        time.sleep(self.seconds)
        (into / "other-half").write_bytes(b"2" * 100_000)

    def count(self) -> int:
        return len(self.builds.read_text().splitlines()) if self.builds.exists() else 0


def test_artifact_is_built_once(store: ArtifactCache, tmp_path: Path) -> None:
    tool = CountedBuild(tmp_path)
    first = store.ensure(tool.artifact())
    assert store.ensure(tool.artifact()) == first
    assert sorted(path.name for path in first.iterdir()) == [manifest.NAME, "half", "other-half"]
    assert tool.count() == 1


@pytest.mark.parametrize("damage", ["truncate", "corrupt", "remove"])
def test_damaged_artifact_is_built_again(store: ArtifactCache, tmp_path: Path, damage: str) -> None:
    tool = CountedBuild(tmp_path)
    victim = store.ensure(tool.artifact()) / "half"
    match damage:
        case "truncate":
            os.truncate(victim, 10)
        case "corrupt":
            victim.write_bytes(b"x" * 100_000)
        case _:
            victim.unlink()
    assert (store.ensure(tool.artifact()) / "half").read_bytes() == b"1" * 100_000
    assert tool.count() == 2


def test_failed_build_leaves_no_artifact(store: ArtifactCache) -> None:
    def build(into: Path) -> None:
        (into / "half").write_bytes(b"1")
        raise ProvisionError("the registry is gone")

    with pytest.raises(ProvisionError, match="the registry is gone"):
        store.ensure(Artifact("tool-1.0", "the tool", 1, build))
    assert not store.path("tool-1.0").exists()
    assert not list((store.root / "work").iterdir())


def _ensure_in_child(root: Path, directory: Path, seconds: float) -> None:
    ArtifactCache(root, StopRequest(), quiet).ensure(CountedBuild(directory, seconds).artifact())


def test_two_processes_build_once(store: ArtifactCache, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_ensure_in_child, args=(store.root, tmp_path, 0.5)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
        assert one.exitcode == 0
        one.close()
    assert CountedBuild(tmp_path).count() == 1
    assert manifest.is_intact(store.path("tool-1.0"))


def test_killed_build_is_removed_and_repeated(store: ArtifactCache, tmp_path: Path) -> None:
    tool = CountedBuild(tmp_path)
    child = multiprocessing.get_context("spawn").Process(target=_ensure_in_child, args=(store.root, tmp_path, 60.0))
    child.start()
    eventually(lambda: tool.count() == 1, within=20)
    child.kill()
    child.join(10)
    child.close()
    assert len(list((store.root / "work").iterdir())) == 1
    assert not store.path("tool-1.0").exists()

    store.ensure(tool.artifact())
    assert tool.count() == 2
    assert not list((store.root / "work").iterdir())


def test_stop_request_ends_wait_for_build_of_another_process(
    store: ArtifactCache, tmp_path: Path, stop_request: StopRequest
) -> None:
    def stop(progress: InstallProgress) -> None:
        if "waiting" in progress.detail:
            stop_request.request(signal.SIGTERM)

    waiting = ArtifactCache(store.root, stop_request, stop)

    def build(into: Path) -> None:
        (into / "file").touch()
        with pytest.raises(StopRequested):
            waiting.ensure(CountedBuild(tmp_path).artifact())

    store.ensure(Artifact("tool-1.0", "the tool", 1, build))
    assert CountedBuild(tmp_path).count() == 0


def test_unwritable_cache_directory_is_named(tmp_path: Path, stop_request: StopRequest) -> None:
    (tmp_path / "file").touch()
    store = ArtifactCache(tmp_path / "file" / "cache", stop_request, quiet)
    with pytest.raises(ProvisionError, match=r"cannot write to the cache directory .*/file/cache .*PERAGO_CACHE_DIR"):
        store.ensure(CountedBuild(tmp_path).artifact())


def test_complete_artifact_of_unwritable_cache_is_used(store: ArtifactCache, tmp_path: Path) -> None:
    tool = CountedBuild(tmp_path)
    path = store.ensure(tool.artifact())
    shutil.rmtree(store.root / "locks")
    (store.root / "locks").touch()
    assert store.ensure(tool.artifact()) == path


def test_missing_disk_space_is_reported_before_the_build(
    store: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 30))
    tool = CountedBuild(tmp_path)
    with pytest.raises(ProvisionError, match=r"the tool needs 3\.0 GiB of free disk, and .* has 1\.0 GiB"):
        store.ensure(Artifact("tool-1.0", "the tool", 3 << 30, tool.build))
    assert tool.count() == 0


def test_disk_full_during_build_is_reported(store: ArtifactCache) -> None:
    def build(into: Path) -> None:
        with Path("/dev/full").open("wb") as handle:
            handle.write(b"x")

    with pytest.raises(ProvisionError, match="no space left on the disk that holds"):
        store.ensure(Artifact("tool-1.0", "the tool", 1, build))


def test_cache_directory_is_taken_from_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERAGO_CACHE_DIR", raising=False)
    assert artifact_cache.default_root() == tmp_path / "xdg" / "perago"
    monkeypatch.setenv("PERAGO_CACHE_DIR", str(tmp_path / "own"))
    assert artifact_cache.default_root() == tmp_path / "own"
