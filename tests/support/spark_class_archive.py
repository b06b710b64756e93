"""The classes that a small attempt loads, as an archive from which a driver starts much faster. Built once per machine.

`python -m tests.support.spark_class_archive FILE` builds it, from a driver's whole life on the servers that standard input names.
"""

import hashlib
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from tests.support.lake_sites import RealSite
from tests.support.worker_harness import ROOT

from perago.dev.stack import Endpoints
from perago.model import LakeAccess
from perago.process.stop_request import StopRequest
from perago.provision import java
from perago.provision.artifact_cache import Artifact, ArtifactCache, default_root
from perago.provision.progress import quiet
from perago.spark import options, runtime, s3a

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds or a few minutes: compiling less costs less than it saves."""
_DISK = 1 << 28
_DUMP_SECONDS = 120


def java_options(stack: Endpoints) -> str:
    """For `SPARK_SUBMIT_OPTS`. Where the archive does not fit after all, Java goes on without it."""
    return f"{QUICK} -XX:SharedArchiveFile={_archive(stack)} -Xlog:disable"


def _archive(stack: Endpoints) -> Path:
    cache = ArtifactCache(default_root(), StopRequest(), quiet)
    name = f"spark-test-classes-{_identity(cache)}"

    def build(into: Path) -> None:
        with cache.log(name).open("wb") as log:
            command = [sys.executable, "-m", "tests.support.spark_class_archive", str(into / "classes.jsa")]
            subprocess.run(command, cwd=ROOT, check=True, input=stack.to_json().encode(), stdout=log, stderr=log)

    return cache.ensure(Artifact(name, "an archive of Spark's classes", _DISK, build)) / "classes.jsa"


def _identity(cache: ArtifactCache) -> str:
    """Of all that is in it: Java, Spark with its jars, and what this file asks for."""
    import pyspark  # noqa: PLC0415  only for its version

    found = (java.find(cache, runtime.OLDEST_JAVA).build, pyspark.__version__, pyspark.__file__, runtime.ensure())
    return hashlib.sha256(repr(found).encode() + Path(__file__).read_bytes()).hexdigest()[:12]


def main(file: str, stack: Endpoints) -> None:
    from pyspark import SparkContext  # noqa: PLC0415  only needed to build the archive

    from perago.spark.driver import Driver  # noqa: PLC0415  as above

    with tempfile.TemporaryDirectory() as scratch:
        chosen = {"spark.master": "local[1]", "spark.driver.extraJavaOptions": f"{QUICK} -XX:ArchiveClassesAtExit={file}"}
        driver = Driver(options.SparkOptions(Path(scratch), properties=chosen), runtime.ensure)
        site = RealSite(stack, f"classes-{uuid.uuid4().hex[:12]}")
        access = LakeAccess(stack.s3_url, stack.access_key_id, stack.secret_access_key)
        spark = driver.session(s3a.session_settings(site.repository, access)).spark
        for mode in ("append", "overwrite"):
            spark.range(2).selectExpr("cast(id as string)").write.mode(mode).text(f"s3a://{site.repository}/main/{mode}")
        assert spark.read.text(f"s3a://{site.repository}/main/*").count()
        gateway: Any = SparkContext
        process: subprocess.Popen[bytes] = gateway._gateway.proc
        assert process.stdin is not None
        # It writes the archive as it ends, which takes longer than a driver is given for that.
        process.stdin.close()
        process.wait(_DUMP_SECONDS)
        driver.close()
        site.close()


if __name__ == "__main__":
    main(sys.argv[1], Endpoints.from_json(sys.stdin.read()))
