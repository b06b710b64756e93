"""What a driver needs besides pyspark: Java, jars for S3 and an archive of classes. Downloaded or made once, in the cache."""

import hashlib
import importlib.util
import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perago.process.stop_request import StopRequest
from perago.provision import java, maven
from perago.provision.artifact_cache import Artifact, ArtifactCache, default_root
from perago.provision.java import Java
from perago.provision.progress import InstallProgress, Report, quiet
from perago.spark import class_archive, stream_jar

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
    spark_home: Path
    jars: tuple[Path, ...]
    java_options: tuple[str, ...] = ()
    """With which a driver on this machine starts faster."""


def ensure(report: Report = quiet) -> SparkRuntime:
    """`ProvisionError` if something is neither installed nor can be downloaded."""
    with _cache(report) as cache:
        java, needed = _find(cache)
        return replace(needed, java_options=class_archive.java_options(cache, java, needed.spark_home, needed.jars))


def without_archive() -> SparkRuntime:
    """For the driver whose classes are recorded."""
    with _cache(quiet) as cache:
        return _find(cache)[1]


def _find(cache: ArtifactCache) -> tuple[Java, SparkRuntime]:
    found, spark, jars = java.find(cache, oldest=OLDEST_JAVA), _spark_home(), _jars(cache)
    return found, SparkRuntime(_java_home(cache, found), spark, (*jars, stream_jar.ensure(cache, found, spark, jars)))


@contextmanager
def _cache(report: Report) -> Generator[ArtifactCache]:
    stop_request = StopRequest()
    try:
        yield ArtifactCache(default_root(), stop_request, report)
    finally:
        stop_request.close()


def _spark_home() -> Path:
    """As pyspark finds it, but without its import."""
    if chosen := os.environ.get("SPARK_HOME"):
        return Path(chosen)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark", name="pyspark")
    return Path(found.origin).parent


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


def _java_home(cache: ArtifactCache, found: Java) -> Path:
    script = _SHIM.format(program=found.program)

    def build(into: Path) -> None:
        (into / "bin").mkdir()
        shim = into / "bin" / "java"
        shim.write_text(script)
        shim.chmod(0o755)

    return cache.ensure(Artifact(f"spark-java-{_short(script.encode())}", "a Java for Spark", _DISK, build))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


if __name__ == "__main__":
    # While an image is built, so that its containers download and prepare nothing.
    ensure()
