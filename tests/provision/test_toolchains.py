"""Which Java and which Go are used: those of the machine if they are new enough, else the pinned ones."""

from collections.abc import Generator
from pathlib import Path

import pytest

from perago.process.stop_request import StopRequest
from perago.provision import go, java
from perago.provision.artifact_cache import ArtifactCache
from perago.provision.progress import quiet

SETTINGS = """Property settings:
    java.version = {version}
    java.vm.name = {vm}
    java.vm.version = {version}+9
    os.arch = amd64
"""


@pytest.fixture
def cache(tmp_path: Path) -> Generator[ArtifactCache]:
    stop_request = StopRequest()
    yield ArtifactCache(tmp_path / "cache", stop_request, quiet)
    stop_request.close()


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str) -> Path:
    shown = SETTINGS.format(version=version, vm="OpenJDK 64-Bit Server VM")
    return program(home / "bin" / "java", f"cat >&2 <<'EOF'\n{shown}EOF")


@pytest.mark.parametrize(
    ("version", "vm", "major", "hotspot"),
    [
        ("25.0.2", "OpenJDK 64-Bit Server VM", 25, True),
        ("21", "Java HotSpot(TM) 64-Bit Server VM", 21, True),
        ("1.8.0_402", "OpenJDK 64-Bit Server VM", 8, True),
        ("21.0.1", "Eclipse OpenJ9 VM", 21, False),
        ("27-ea", "OpenJDK 64-Bit Server VM", 27, True),
    ],
)
def test_java_settings_are_parsed(version: str, vm: str, major: int, hotspot: bool) -> None:
    found = java.describe(Path("/jdk/bin/java"), SETTINGS.format(version=version, vm=vm))
    assert found is not None
    assert (found.major, found.hotspot) == (major, hotspot)


def test_other_programs_are_not_java() -> None:
    assert java.describe(Path("/bin/true"), "hello") is None


def test_builds_of_one_java_version_have_different_names() -> None:
    shown = SETTINGS.format(version="25.0.2", vm="OpenJDK 64-Bit Server VM")
    first = java.describe(Path("/jdk/bin/java"), shown)
    second = java.describe(Path("/jdk/bin/java"), shown.replace("+9", "+10"))
    assert first is not None
    assert second is not None
    assert first.build != second.build


def test_installed_java_is_used_if_new_enough(cache: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(tmp_path / "jdk17", "17.0.15"), fake_java(tmp_path / "jdk24", "24.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", f"{new.parent}:/usr/bin:/bin")
    assert java.find(cache).program == new


@pytest.mark.parametrize("script", ["exit 1", "echo hello", "exec sleep 0"])
def test_broken_java_is_skipped(cache: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    broken = program(tmp_path / "broken" / "bin" / "java", script)
    good = fake_java(tmp_path / "jdk25", "25.0.2")
    monkeypatch.setenv("JAVA_HOME", str(broken.parent.parent))
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    assert java.find(cache).program == good


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27rc1 linux/amd64", (1, 27)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("game of go", ()),
    ],
)
def test_go_versions_are_parsed(output: str, version: tuple[int, ...]) -> None:
    assert go.version(output) == version


def test_installed_go_is_used_if_new_enough(cache: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = program(tmp_path / "bin" / "go", "echo go version go1.26.4 linux/amd64")
    monkeypatch.setenv("PATH", f"{new.parent}:/usr/bin:/bin")
    assert go.find(cache) == new


def test_pinned_go_is_used_if_installed_go_is_too_old(
    cache: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program(tmp_path / "bin" / "go", "echo go version go1.26.3 linux/amd64")
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    monkeypatch.setattr(go, "_pinned", lambda _cache: Path("/pinned/go"))
    assert go.find(cache) == Path("/pinned/go")
