"""Starts of Spark: a driver's first attempt in a new process, and `perago run` of a tiny Spark task.

`python bench/_spark_start.py REPOSITORY` is such a process: reads the endpoints from standard input, prints two durations.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from perago.attempt import transaction
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import LakeAccess, Repository, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import Scene
from perago.provision.progress import quiet
from perago.spark import engine, options, workspace

DRIVER = {"spark.driver.memory": "2g"}
_TASK = """
from pydantic import BaseModel

from perago import SparkWorkspace, WorkspaceSpec, task


class Params(BaseModel):
    pass


class Counted(BaseModel):
    rows: int


@task(name="bench.count", owner_email="bench@example.com", workspace=WorkspaceSpec())
def count(workspace: SparkWorkspace, params: Params) -> Counted:
    rows = workspace.spark.read.text(workspace.input("in.txt"))
    rows.write.text(workspace.output("out"))
    return Counted(rows=rows.count())
"""


def took(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def cold(endpoints: Endpoints, repository: str) -> tuple[float, float]:
    """Seconds of Spark's start, with the import of pyspark, and of the first attempt after it."""
    line = [sys.executable, __file__, repository]
    done = subprocess.run(line, input=endpoints.to_json(), stdout=subprocess.PIPE, text=True, check=True)
    start, attempt = json.loads(done.stdout)
    return start, attempt


def tiny_run() -> float:
    """Seconds of `perago run`, of the whole command."""
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as folder:
        (Path(folder) / "tiny.py").write_text(_TASK)
        (Path(folder) / "files").mkdir()
        (Path(folder) / "files" / "in.txt").write_text("a\nb\n")
        line = [str(Path(sys.executable).with_name("perago")), "run", "tiny", "-w", "files"]
        return took(lambda: subprocess.run(line, cwd=folder, check=True, capture_output=True))


def _count(argument: Any) -> object:
    return {"rows": argument.spark.range(1).count()}


def _first_attempt(endpoints: Endpoints, repository: Repository) -> tuple[float, float]:
    keys = endpoints.access_key_id, endpoints.secret_access_key
    lake = LakeFS(endpoints.lakefs_url, *keys, timeouts=HttpTimeouts(connect=10, request=60))
    scene, access = Scene(lake, repository, prefix="data/"), LakeAccess(endpoints.s3_url, *keys)
    task = DictTask(_count, read_only=False)
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as folder:
        spark = engine.make(options.SparkOptions(Path(folder), properties=DRIVER), quiet)
        start = took(spark.start)
        around = workspace.SparkDependencies(spark, access, lambda: False)

        def made(ref: WorkspaceRef) -> workspace.SparkBranchWorkspace:
            return workspace.SparkBranchWorkspace(lake, ref, "data", around)

        polled = scene.start()
        execution = replace(scene.execution(polled.attempt, task), workspaces=made)
        began = time.perf_counter()
        outcome = transaction.run(execution, polled.input)
        seconds = time.perf_counter() - began
        spark.close()
    if outcome.status is not TaskStatus.COMPLETED:
        raise SystemExit(f"the attempt failed: {outcome.reason}")
    return start, seconds


if __name__ == "__main__":
    print(json.dumps(_first_attempt(Endpoints.from_json(sys.stdin.read()), Repository(sys.argv[1]))))
