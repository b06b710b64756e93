"""Installs pinned Python packages that contain tools or data (a Java runtime, a Go toolchain, flights) into a directory."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from perago.errors import ProvisionError
from perago.provision import install_step
from perago.provision.artifact_cache import ArtifactCache
from perago.provision.progress import InstallProgress

_PINS = Path(__file__).with_name("pins")
_ADVICE = "check the network and the package index settings (pip config, PIP_INDEX_URL, UV_INDEX_URL)"


def version(package: str) -> str:
    """The pinned version."""
    first = (_PINS / f"{package}.txt").read_text().split()[0]
    return first.partition("==")[2]


def unpack(cache: ArtifactCache, package: str, into: Path, log: Path, *, from_source: bool = False) -> None:
    """Installs the package alone, without dependencies, into a directory. `from_source`: it is published without a wheel."""
    title = f"download {package} {version(package)}"
    # Beside the target, so that only the cache is written to, the bytes can be counted, and leftovers are removed.
    temporary = into.with_name(f"{into.name}.tmp")
    temporary.mkdir()
    line = [
        *_installer(),
        *([f"--no-binary={package}"] if from_source else []),
        "--upgrade",
        "--no-deps",
        "--require-hashes",
        "-r",
        str(_PINS / f"{package}.txt"),
        "--target",
        str(into),
    ]
    env = os.environ | {"TMPDIR": str(temporary), "UV_CACHE_DIR": str(temporary / "uv"), "PIP_NO_CACHE_DIR": "1"}
    try:
        install_step.run(
            cache,
            install_step.InstallStep(
                title, line, temporary, log, _ADVICE, env, lambda: InstallProgress(title, done=size(temporary))
            ),
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def size(directory: Path) -> int:
    """Bytes below a directory that another process may be changing."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        return [
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-config",
            "--link-mode=copy",
            "--only-binary=:all:",
            "--python",
            sys.executable,
        ]
    raise ProvisionError(f"neither pip nor uv can be found for {sys.executable}; install one of them (python -m ensurepip)")
