"""Maven artifacts: coordinates go in, a checked file comes out.

The registry's address is a setting, or else the one that the pinned package jgo knows.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago import settings
from perago.errors import ProvisionError
from perago.provision import install_step, python_packages
from perago.provision.cache import Cache, Recipe
from perago.provision.progress import Progress

_DOWNLOAD = Path(__file__).with_name("download.py")
_ADVICE = "check the network and, if a mirror must be used, set PERAGO_MAVEN_REPOSITORY to its address"
_PARTS = (3, 4)
_CENTRAL = re.compile(r'^MAVEN_CENTRAL_URL = "(.+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """group:artifact:version[:classifier], always a jar."""

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


def jar(cache: Cache, coordinates: str, sha256: str = "") -> Path:
    """The artifact's file in the cache. Without a known sha256 the registry's own checksum is used."""
    what = Coordinates.parse(coordinates)
    name = f"maven-{what.file.removesuffix('.jar')}"

    def build(into: Path) -> None:
        download(cache, what, into / what.file, cache.log(name), sha256=sha256)

    return cache.ensure(Recipe(name, f"download {what.artifact} {what.version}", 1 << 28, build)) / what.file


def download(
    cache: Cache, what: Coordinates, destination: Path, log: Path, *, sha256: str = "", total: int | None = None
) -> None:
    """Gets one artifact; a download that broke off goes on where it stopped, also in a later run."""
    base = _repository(cache)
    parts = cache.scratch(f"download-{what.file}")
    title = f"download {what.artifact} {what.version}"
    checksum = sha256 or _published_checksum(cache, f"{base}/{what.path}.sha1", parts / "sha1", log)
    part = parts / what.file
    news = _bytes(title, part, total)
    install_step.perform(cache, _step(title, [f"{base}/{what.path}", str(part), checksum], parts, log, news))
    part.rename(destination)
    (parts / "sha1").unlink(missing_ok=True)
    parts.rmdir()


def _published_checksum(cache: Cache, url: str, path: Path, log: Path) -> str:
    path.unlink(missing_ok=True)
    install_step.perform(cache, _step("download its checksum", [url, str(path), ""], path.parent, log, None))
    return path.read_text().split()[0]


def _step(title: str, arguments: list[str], cwd: Path, log: Path, news: Callable[[], Progress] | None) -> install_step.Step:
    line = [sys.executable, "-I", "-S", str(_DOWNLOAD), *arguments]
    return install_step.Step(title=title, line=line, cwd=cwd, log=log, advice=_ADVICE, news=news)


def _bytes(title: str, part: Path, total: int | None) -> Callable[[], Progress]:
    return lambda: Progress(title, done=part.stat().st_size if part.exists() else 0, total=total)


def _repository(cache: Cache) -> str:
    if named := settings.load_downloads().perago_maven_repository:
        return named
    name = f"jgo-{python_packages.version('jgo')}"
    recipe = Recipe(
        name, "find the Maven registry", 1 << 26, lambda into: python_packages.unpack(cache, "jgo", into, cache.log(name))
    )
    known = _CENTRAL.search((cache.ensure(recipe) / "jgo" / "constants.py").read_text())
    if known is None:
        raise ProvisionError("the address of the Maven registry is unknown; set PERAGO_MAVEN_REPOSITORY")
    return known[1]
