"""The phases of a Spark attempt and the Spark task of the kill matrix; the driver is one more victim."""

import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.support import kill_matrix, worker_harness
from tests.support.kill_matrix import KillMatrix, KillPhase, Process
from tests.support.waiting import eventually
from tests.support.worker_harness import Gate, Worker, WorkerHarness

from perago.model import Commit, CommitId, WorkflowId

APPEND = "tests.support.tasks.spark_append"
CONF = """\
spark.master local[1]
spark.driver.memory 512m
spark.sql.codegen.wholeStage false
"""
PART = r"PUT /[^/]+/perago-staging[^/]*/\S*partNumber="
COMPLETION = r"POST /[^/]+/perago-staging[^/]*/\S*uploadId="
DIFF = rf"GET {kill_matrix.REPOSITORY}/branches/perago-staging[^/]*/diff"

PHASES = [
    KillPhase("opening", Process.EXECUTOR, kill_matrix.OBJECTS, before_body=True),
    KillPhase(
        "before the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.OBJECTS, before_body=True
    ),
    KillPhase(
        "after the first fence",
        Process.SUPERVISOR,
        kill_matrix.TASK_READ,
        after=True,
        armed_by=kill_matrix.OBJECTS,
        before_body=True,
    ),
    KillPhase("before the staging branch", Process.EXECUTOR, kill_matrix.BRANCH, before_body=True),
    KillPhase("after the staging branch", Process.EXECUTOR, kill_matrix.BRANCH, after=True, before_body=True),
    KillPhase("writing an object", Process.DRIVER, PART, before_body=True),
    KillPhase("between two writes"),
    KillPhase("completing an object", Process.DRIVER, COMPLETION, armed_by=kill_matrix.IN_BODY),
    KillPhase("settling", Process.EXECUTOR, DIFF),
    *(
        replace(phase, as_in_local_task=True)
        for phase in (
            KillPhase(
                "before the fence after the body",
                Process.SUPERVISOR,
                kill_matrix.TASK_READ,
                armed_by=kill_matrix.STAGED_OBJECTS,
            ),
            KillPhase("after the staging commit", Process.EXECUTOR, kill_matrix.COMMIT, after=True),
            KillPhase("before the second fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.COMMIT),
            KillPhase("before publish", Process.EXECUTOR, kill_matrix.MERGE),
            KillPhase("after publish", Process.EXECUTOR, kill_matrix.MERGE, after=True),
            KillPhase("before the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE),
            KillPhase("after the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE, after=True),
        )
    ),
]

SELECTION = {
    "driver": ["between two writes", "completing an object"],
    "executor": ["after the staging branch"],
    "supervisor": ["writing an object"],
    "lakefs": ["opening", "before the first fence", "after the first fence", "before the staging branch", "settling"],
}
"""Without Conductor, which concerns the supervisor alone and is killed under a local task; most often lakeFS, because every other
victim costs a driver, whose start takes longest."""


class SparkTask:
    """Implements `kill_matrix.TaskUnderTest`."""

    def seed(self, harness: WorkerHarness) -> None:
        harness.site.publish(
            "main", {"data/log/first": b"first\n", "data/last/first": b"first\n", "elsewhere/kept": b"untouched"}
        )

    def start(self, harness: WorkerHarness, environ: Mapping[str, str]) -> Worker:
        conf = harness.folder / "spark.conf"
        harness.folder.mkdir(exist_ok=True)
        conf.write_text(CONF)
        temporary(harness).mkdir(exist_ok=True)
        return harness.start(APPEND, jobs=1, PERAGO_SPARK_CONF_FILE=str(conf), TMPDIR=str(temporary(harness)), **environ)

    def begin(self, harness: WorkerHarness, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        params = {"line": line, "gate": str(gate)}
        return harness.real.start_workflow([harness.step(APPEND, "it", params, harness.workspace(base))])

    def check_step(self, harness: WorkerHarness, base: CommitId, head: Commit, line: str) -> None:
        """Every file that was there is there, two are new; the replaced table has two."""
        before, after = harness.site.content(base), harness.site.content(head.id)
        made = [f"{line}: 0\n".encode(), f"{line}: 1\n".encode()]
        kept = {path for path in before if not path.startswith("data/last/")}
        assert {path: after.get(path) for path in kept} == {path: before[path] for path in kept}, line
        new = sorted(set(after) - kept)
        assert sorted(after[path] for path in new if path.startswith("data/log/part-")) == made, (line, new)
        assert sorted(after[path] for path in new if path.startswith("data/last/part-")) == made, (line, new)
        assert len(new) == 2 * len(made), (line, new)

    def check_nothing_left(self, harness: WorkerHarness, worker: Worker) -> None:
        """One driver at most, in one directory; an executor that has just been killed may still be starting its next one."""
        eventually(lambda: drivers_on_this_machine(harness) == drivers(worker), within=30, what="the end of all other drivers")
        eventually(lambda: len(homes(harness)) == 1, within=30, what="one directory")
        eventually(lambda: not list(temporary(harness).iterdir()), within=30, what="the end of temporary files")
        (home,) = homes(harness)
        assert len(list(home.glob("blockmgr-*"))) <= 1
        assert [path for pid in drivers(worker) for path in unpacked_libraries(pid) if not path.startswith(str(home))] == []


def kill_driver(matrix: KillMatrix, phases: Sequence[KillPhase]) -> None:
    worker = matrix.worker()
    for phase in phases:
        cell = matrix.begin(phase)
        (driver,) = drivers(worker)
        os.kill(driver, signal.SIGKILL)
        cell.release_survivors(Process.DRIVER)
        assert matrix.harness.ended(cell.workflow, within=kill_matrix.PATIENCE) == "COMPLETED", phase.name
        # Only a body that was using the driver fails; earlier and later phases continue with another driver, or without one.
        assert len(matrix.harness.tasks(cell.workflow)) == 1 + (phase.sender in {Process.NONE, Process.DRIVER}), phase.name
        cell.check_at_end(worker)
    assert not worker.said("failed to clean local workspace")
    assert worker.stop() == 0


def temporary(harness: WorkerHarness) -> Path:
    return harness.folder / "tmp"


def homes(harness: WorkerHarness) -> list[Path]:
    """The directories of drivers, living and dead."""
    return list((harness.folder / "cache" / "spark").iterdir())


def drivers(worker: Worker) -> list[int]:
    executors = worker.executors()
    return [pid for executor in executors for pid in worker_harness.children(executor) if b"java" in worker_harness.command(pid)]


def drivers_on_this_machine(harness: WorkerHarness) -> list[int]:
    """Of any parent: their command names a file of this harness."""
    ids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in ids if f"{harness.folder}/cache/spark/".encode() in worker_harness.command(pid)]


def unpacked_libraries(pid: int) -> list[str]:
    """Native libraries that a driver has unpacked for itself; they stay when it is killed."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in maps if f" {tempfile.gettempdir()}/" in line and line.endswith(".so")})
