"""The archive of classes with which drivers start: it is used, made once, and removed with its installation."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from tests.support.spark import SparkHarness

from perago.errors import ProvisionError
from perago.process.stop_request import StopRequest
from perago.provision.artifact_cache import ArtifactCache
from perago.provision.java import Java
from perago.provision.progress import quiet
from perago.spark import class_archive

JAVA = Java(Path("/jdk/bin/java"), 17, "java17-a")


@pytest.fixture
def cache(tmp_path: Path) -> ArtifactCache:
    return ArtifactCache(tmp_path / "cache", StopRequest(), quiet)


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Directories in which an archive was recorded; a real recording takes half a minute."""
    found: list[Path] = []

    def record(cache: ArtifactCache, java: Java, into: Path, log: Path) -> None:
        found.append(into)
        (into / "classes.archive").write_text("classes")

    monkeypatch.setattr(class_archive, "_record", record)
    return found


def installed(home: Path) -> Path:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark.jar").write_text("one")
    return home


def archives(cache: ArtifactCache) -> list[Path]:
    return list((cache.root / "artifacts").glob("*/classes.archive"))


def test_a_driver_starts_from_the_archive(harness: SparkHarness) -> None:
    context: Any = SparkContext
    harness.engine.start()
    maps = Path(f"/proc/{context._gateway.proc.pid}/maps").read_text()
    assert "classes.archive" in maps, "Java did not accept the archive"


def test_it_is_made_once(cache: ArtifactCache, recordings: list[Path], tmp_path: Path) -> None:
    spark = installed(tmp_path / "spark")
    first = class_archive.java_options(cache, JAVA, spark, ())
    assert first == (f"-XX:SharedArchiveFile={archives(cache)[0]}", "-Xlog:cds*=off")
    assert class_archive.java_options(cache, JAVA, spark, ()) == first
    assert len(recordings) == 1


def test_it_is_made_again_for_another_spark_and_replaces_that_of_the_same_place(
    cache: ArtifactCache, recordings: list[Path], tmp_path: Path
) -> None:
    spark, other = installed(tmp_path / "spark"), installed(tmp_path / "other")
    first = class_archive.java_options(cache, JAVA, spark, ())
    class_archive.java_options(cache, JAVA, other, ())
    assert len(archives(cache)) == 2
    (spark / "jars" / "spark.jar").write_text("another")
    assert class_archive.java_options(cache, JAVA, spark, ()) != first
    assert len(archives(cache)) == 2
    shutil.rmtree(other)
    (spark / "jars" / "spark.jar").write_text("a third one")
    class_archive.java_options(cache, JAVA, spark, ())
    assert len(archives(cache)) == 1
    assert len(recordings) == 4


def test_a_driver_starts_without_it_where_none_can_be_made(
    cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*arguments: object) -> None:
        raise ProvisionError("cannot write to the cache directory")

    monkeypatch.setattr(class_archive, "_record", refuse)
    assert class_archive.java_options(cache, JAVA, installed(tmp_path / "spark"), ()) == ()
    other = Java(Path("/j9/bin/java"), 21, "java21-j9", hotspot=False)
    assert class_archive.java_options(cache, other, tmp_path / "spark", ()) == ()
