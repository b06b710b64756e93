"""Downloads Maven artifacts and verifies their checksums.

The registry's address is a setting; the default is the one that the pinned package jgo contains.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago import settings
from perago.errors import ProvisionError
from perago.provision import install_step, python_packages
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.progress import InstallProgress

_DOWNLOAD = Path(__file__).with_name("download.py")
_ADVICE = "check the network and, if a mirror must be used, set PERAGO_MAVEN_REPOSITORY to its address"
_PARTS = (3, 4)
_CENTRAL = re.compile(r'^MAVEN_CENTRAL_URL = "(.+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """group:artifact:version[:classifier] of a jar."""

    group: str
    artifact: str
    version: str
    classifier: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Coordinates":
        parts = text.split(":")
        if len(parts) not in _PARTS or not all(parts):
            raise ProvisionError(
                f"{text!r} does not name a Maven artifact; write group:artifact:version or group:artifact:version:classifier"
            )
        return cls(*parts)

    @property
    def file(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"

    @property
    def path(self) -> str:
        return "/".join([*self.group.split("."), self.artifact, self.version, self.file])


def jar(cache: ArtifactCache, coordinates: str, sha256: str = "") -> Path:
    """The artifact's file in the cache. Without a sha256 the checksum that the registry publishes is used."""
    wanted = Coordinates.parse(coordinates)
    name = f"maven-{wanted.file.removesuffix('.jar')}"

    def build(into: Path) -> None:
        download(cache, wanted, into / wanted.file, cache.log(name), sha256=sha256)

    return cache.ensure(Artifact(name, f"download {wanted.artifact} {wanted.version}", 1 << 28, build)) / wanted.file


def download(
    cache: ArtifactCache, wanted: Coordinates, destination: Path, log: Path, *, sha256: str = "", total: int | None = None
) -> None:
    """Downloads one artifact; an interrupted download continues where it stopped, also in a later process."""
    base = _repository(cache)
    parts = cache.scratch(f"download-{wanted.file}")
    title = f"download {wanted.artifact} {wanted.version}"
    checksum = sha256 or _published_checksum(cache, f"{base}/{wanted.path}.sha1", parts / "sha1", log)
    part = parts / wanted.file
    progress = _bytes(title, part, total)
    install_step.run(cache, _step(title, [f"{base}/{wanted.path}", str(part), checksum], parts, log, progress))
    part.rename(destination)
    (parts / "sha1").unlink(missing_ok=True)
    parts.rmdir()


def _published_checksum(cache: ArtifactCache, url: str, path: Path, log: Path) -> str:
    path.unlink(missing_ok=True)
    install_step.run(cache, _step("download its checksum", [url, str(path), ""], path.parent, log, None))
    return path.read_text().split()[0]


def _step(
    title: str, arguments: list[str], cwd: Path, log: Path, progress: Callable[[], InstallProgress] | None
) -> install_step.InstallStep:
    line = [sys.executable, "-I", "-S", str(_DOWNLOAD), *arguments]
    return install_step.InstallStep(title=title, line=line, cwd=cwd, log=log, advice=_ADVICE, progress=progress)


def _bytes(title: str, part: Path, total: int | None) -> Callable[[], InstallProgress]:
    return lambda: InstallProgress(title, done=part.stat().st_size if part.exists() else 0, total=total)


def _repository(cache: ArtifactCache) -> str:
    if configured := settings.load_downloads().perago_maven_repository:
        return configured
    name = f"jgo-{python_packages.version('jgo')}"
    artifact = Artifact(
        name, "find the Maven registry", 1 << 26, lambda into: python_packages.unpack(cache, "jgo", into, cache.log(name))
    )
    address = _CENTRAL.search((cache.ensure(artifact) / "jgo" / "constants.py").read_text())
    if address is None:
        raise ProvisionError("the address of the Maven registry is unknown; set PERAGO_MAVEN_REPOSITORY")
    return address[1]
