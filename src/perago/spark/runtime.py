"""What a driver needs besides pyspark: the jars for S3 and a Java. Downloaded once into the cache."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from perago.process.stop_request import StopRequest
from perago.provision import java, maven
from perago.provision.artifact_cache import Artifact, ArtifactCache, default_root
from perago.provision.progress import InstallProgress, Report, quiet

OLDEST_JAVA = 17
_JARS = Path(__file__).with_name("jars.txt")
_DISK = 1 << 20
_AT_ONCE = 8
_SHIM = """\
#!/bin/sh
# Spark asks for a module that small Java runtimes lack, and that only its linear algebra would use.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{program}' "$@"
"""


@dataclass(frozen=True, slots=True)
class SparkRuntime:
    java_home: Path
    jars: tuple[Path, ...]


def ensure(report: Report = quiet) -> SparkRuntime:
    """`ProvisionError` if something is neither installed nor can be downloaded."""
    stop_request = StopRequest()
    try:
        cache = ArtifactCache(default_root(), stop_request, report)
        return SparkRuntime(_java_home(cache), _jars(cache))
    finally:
        stop_request.close()


def packages() -> str:
    """The two packages that need the others, as the `--packages` option of a separate Spark server."""
    listed = [line.split()[0] for line in _JARS.read_text().splitlines()]
    return ",".join(name for name in listed if name.split(":")[1].startswith(("hadoop-aws", "spark-hadoop-cloud")))


def _jars(cache: ArtifactCache) -> tuple[Path, ...]:
    """Downloaded in parallel: each of these many small files takes longer to request than to transfer."""
    listed = [line.split() for line in _JARS.read_text().splitlines()]
    combined = _CombinedProgress("the jars that Spark needs for lakeFS", cache.report)
    watched = replace(cache, report=combined)

    def fetch(line: list[str]) -> Path:
        return maven.jar(watched, *line)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="jars") as pool:
        found = tuple(pool.map(fetch, listed))
    combined.finish()
    return found


@dataclass(slots=True)
class _CombinedProgress:
    """Reports the progress of many downloads as one step."""

    title: str
    report: Report
    is_begun: bool = False

    def __call__(self, news: InstallProgress) -> None:
        self.is_begun = True
        self.report(InstallProgress(self.title, news.step))

    def finish(self) -> None:
        if self.is_begun:
            self.report(InstallProgress(self.title, finished=True))


def _java_home(cache: ArtifactCache) -> Path:
    program = java.find(cache, oldest=OLDEST_JAVA).program
    script = _SHIM.format(program=program)

    def build(into: Path) -> None:
        (into / "bin").mkdir()
        shim = into / "bin" / "java"
        shim.write_text(script)
        shim.chmod(0o755)

    return cache.ensure(Artifact(f"spark-java-{_short(script.encode())}", "a Java for Spark", _DISK, build))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


if __name__ == "__main__":
    # While an image is built, so that its containers download nothing.
    ensure()
