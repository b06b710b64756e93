"""An archive of the classes that a driver loads, with which it starts in half of the time. Made once per installation of Spark.

Java uses it only if class path and jars are exactly those of the recording, and ignores it otherwise.
"""

import contextlib
import hashlib
import json
import shutil
import sys
from pathlib import Path

from perago.errors import ProvisionError
from perago.process import child_process
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.java import Java
from perago.provision.progress import InstallProgress

_PREFIX = "spark-classes-"
_ARCHIVE = "classes.archive"
_OWNER = "owner.json"
_DISK = 1 << 29
_RECORDING = "perago.spark.class_recording"
_TITLE = "prepare quick starts of Spark"


def java_options(cache: ArtifactCache, java: Java, spark: Path, jars: tuple[Path, ...]) -> tuple[str, ...]:
    """Options for a driver on this machine; none if there is no archive and none can be made, as in a read-only cache."""
    if not java.hotspot:
        return ()
    name = f"{_PREFIX}{_identity(java, spark, jars)}"

    def build(into: Path) -> None:
        _remove_replaced(cache, java, spark)
        _record(cache, java, into, cache.log(name))
        (into / _OWNER).write_text(json.dumps(_owner(java, spark)))

    with contextlib.suppress(ProvisionError):
        archive = cache.ensure(Artifact(name, _TITLE, _DISK, build)) / _ARCHIVE
        # Without one, a virtual machine that cannot write archives starts as before.
        return java.use_archive(archive) if archive.exists() else ()
    return ()


def _record(cache: ArtifactCache, java: Java, into: Path, log: Path) -> None:
    """Run a driver in a process of its own, because a process has one driver at most."""
    line = [sys.executable, "-m", _RECORDING, str(into / "scratch"), java.record_archive(into / _ARCHIVE)]
    progress = InstallProgress(_TITLE, "first start, to make all later ones fast")
    code = child_process.run(child_process.Command(line, into, log), cache.stop_request, lambda: cache.report(progress))
    shutil.rmtree(into / "scratch", ignore_errors=True)
    if code != 0:
        (into / _ARCHIVE).unlink(missing_ok=True)


def _identity(java: Java, spark: Path, jars: tuple[Path, ...]) -> str:
    """Of everything on which Java makes its validity depend, and of the code that was recorded."""
    # Whole seconds, as Java compares them: an image does not keep fractions.
    seen = [(jar, jar.stat()) for jar in [*jars, *sorted((spark / "jars").iterdir())]]
    found = [(str(jar), stat.st_size, int(stat.st_mtime)) for jar, stat in seen]
    recording = Path(__file__).with_name("class_recording.py").read_bytes()
    return hashlib.sha256(repr([java.build, found]).encode() + recording).hexdigest()[:12]


def _owner(java: Java, spark: Path) -> dict[str, str]:
    return {"java": java.build, "spark": str(spark)}


def _remove_replaced(cache: ArtifactCache, java: Java, spark: Path) -> None:
    """Archives of installations that do not exist any more, or that have changed. Running drivers keep what they have opened."""
    for file in (cache.root / "artifacts").glob(f"{_PREFIX}*/{_OWNER}"):
        with contextlib.suppress(OSError, ValueError):
            owner = json.loads(file.read_text())
            if owner == _owner(java, spark) or not Path(owner["spark"]).exists():
                shutil.rmtree(file.parent)
