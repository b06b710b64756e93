"""Initializes what every first query needs while the driver starts, on another core: Spark would do it one after the other."""

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from py4j.protocol import Py4JError

_CLASSES = (
    # Scala's reflection, through the functions that a session registers.
    "org.apache.spark.sql.ml.InternalFunctionRegistration$",
    # The texts of all errors: a session raises one and handles it.
    "org.apache.spark.SparkThrowableHelper$",
    "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$",
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
)
_SOURCE = "public class Compiled { public int one() { return 1; } }"
"""The first compilation loads the compiler of generated code, from a signed jar, which no archive may contain."""


@contextlib.contextmanager
def beside(jvm: Any) -> Generator[None]:
    """Runs beside the block, and has ended after it."""
    thread = threading.Thread(target=_initialize, args=(jvm,), name="perago-spark-warm-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _initialize(jvm: Any) -> None:
    """Without an effect on results, so that errors, for example of another version of Spark, are ignored."""
    with contextlib.suppress(Py4JError, OSError, TypeError):
        jvm.org.codehaus.janino.SimpleCompiler().cook(_SOURCE)
    for name in _CLASSES:
        with contextlib.suppress(Py4JError, OSError):
            jvm.java.lang.Class.forName(name)
