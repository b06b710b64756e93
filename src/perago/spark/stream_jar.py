"""A jar with the class that chooses how S3A reads an object, compiled once with the compiler that Spark contains."""

import hashlib
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from perago.provision import install_step
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.java import Java

FACTORY = "perago.s3a.SizedStreams"
_SOURCE = Path(__file__).with_name("SizedStreams.java")
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
"""The command line of Janino. A Java runtime has no compiler of its own."""
_JAR = "perago-s3a.jar"
_DISK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)


def ensure(cache: ArtifactCache, java: Java, spark: Path, jars: Sequence[Path]) -> Path:
    """The jar; `ProvisionError` if it cannot be compiled. `jars` are those that Spark at `spark` needs for S3."""
    identity = hashlib.sha256(_SOURCE.read_bytes() + repr([jar.name for jar in jars]).encode()).hexdigest()[:12]
    name = f"spark-streams-{identity}"
    title = "prepare Spark's reading of small files"

    def build(into: Path) -> None:
        path = os.pathsep.join(map(str, [*jars, *sorted((spark / "jars").glob("*.jar"))]))
        line = [str(java.program), "-cp", path, _COMPILER, "-d", str(into), "-classpath", path, str(_SOURCE)]
        advice = "check that pyspark is installed completely"
        install_step.run(cache, install_step.InstallStep(title, line, into, cache.log(name), advice))
        _pack(into)

    return cache.ensure(Artifact(name, title, _DISK, build)) / _JAR


def _pack(directory: Path) -> None:
    """One class, and always the same bytes."""
    member = f"{FACTORY.replace('.', '/')}.class"
    with zipfile.ZipFile(directory / _JAR, "w") as jar:
        jar.writestr(zipfile.ZipInfo(member, _EPOCH), (directory / member).read_bytes())
