"""The phases of a Spark attempt and the Spark task of the kill matrix; the driver is one more victim."""

import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import kill_matrix, spark_class_archive
from tests.support import worker as rigs
from tests.support.kill_matrix import KillHarness, Phase, Process
from tests.support.worker import Gate, Rig, Worker

from perago.model import Commit, CommitId, WorkflowId

APPEND = "tests.support.tasks.spark_append"
CONF = """\
spark.master local[1]
spark.driver.memory 512m
spark.sql.codegen.wholeStage false
spark.driver.extraJavaOptions {java_options}
"""
PART = r"PUT /[^/]+/perago-staging[^/]*/\S*partNumber="
COMPLETION = r"POST /[^/]+/perago-staging[^/]*/\S*uploadId="
DIFF = rf"GET {kill_matrix.REPOSITORY}/branches/perago-staging[^/]*/diff"

VICTIMS = ("driver", "executor", "supervisor", "lakefs", "conductor")
PHASES = [
    Phase("opening", Process.EXECUTOR, kill_matrix.OBJECTS, before_body=True),
    Phase("before the first fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.OBJECTS, before_body=True),
    Phase(
        "after the first fence",
        Process.SUPERVISOR,
        kill_matrix.TASK_READ,
        after=True,
        armed_by=kill_matrix.OBJECTS,
        before_body=True,
    ),
    Phase("before the staging branch", Process.EXECUTOR, kill_matrix.BRANCH, before_body=True),
    Phase("after the staging branch", Process.EXECUTOR, kill_matrix.BRANCH, after=True, before_body=True),
    Phase("writing an object", Process.DRIVER, PART, before_body=True),
    Phase("between two writes"),
    Phase("completing an object", Process.DRIVER, COMPLETION, armed_by=kill_matrix.IN_BODY),
    Phase("settling", Process.EXECUTOR, DIFF),
    Phase("before the fence after the body", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.STAGED_OBJECTS),
    Phase("after the staging commit", Process.EXECUTOR, kill_matrix.COMMIT, after=True),
    Phase("before the second fence", Process.SUPERVISOR, kill_matrix.TASK_READ, armed_by=kill_matrix.COMMIT),
    Phase("before publish", Process.EXECUTOR, kill_matrix.MERGE),
    Phase("after publish", Process.EXECUTOR, kill_matrix.MERGE, after=True),
    Phase("before the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE),
    Phase("after the report", Process.SUPERVISOR, kill_matrix.TASK_UPDATE, after=True),
]


@dataclass(frozen=True)
class SparkTask:
    """Implements `kill_matrix.TaskUnderTest`."""

    java_options: str = spark_class_archive.QUICK

    def seed(self, rig: Rig) -> None:
        rig.site.publish("main", {"data/log/first": b"first\n", "data/last/first": b"first\n", "elsewhere/kept": b"untouched"})

    def start(self, rig: Rig, environ: Mapping[str, str]) -> Worker:
        conf = rig.folder / "spark.conf"
        rig.folder.mkdir(exist_ok=True)
        conf.write_text(CONF.format(java_options=self.java_options))
        temporary(rig).mkdir(exist_ok=True)
        return rig.start(APPEND, jobs=1, PERAGO_SPARK_CONF_FILE=str(conf), TMPDIR=str(temporary(rig)), **environ)

    def begin(self, rig: Rig, base: CommitId, line: str, gate: Gate) -> WorkflowId:
        params = {"line": line, "gate": str(gate)}
        return rig.real.start_workflow([rig.step(APPEND, "it", params, rig.workspace(base))])

    def check_step(self, rig: Rig, base: CommitId, head: Commit, line: str) -> None:
        """Every file that was there is there, two are new; the replaced table has two."""
        before, after = rig.site.content(base), rig.site.content(head.id)
        made = [f"{line}: 0\n".encode(), f"{line}: 1\n".encode()]
        kept = {path for path in before if not path.startswith("data/last/")}
        assert {path: after.get(path) for path in kept} == {path: before[path] for path in kept}, line
        new = sorted(set(after) - kept)
        assert sorted(after[path] for path in new if path.startswith("data/log/part-")) == made, (line, new)
        assert sorted(after[path] for path in new if path.startswith("data/last/part-")) == made, (line, new)
        assert len(new) == 2 * len(made), (line, new)

    def check_nothing_left(self, rig: Rig, worker: Worker) -> None:
        """One driver at most, in one directory; an executor that has just been killed may still be starting its next one."""
        rigs.eventually(lambda: drivers_on_this_machine(rig) == drivers(worker), within=30, what="the end of all other drivers")
        rigs.eventually(lambda: len(homes(rig)) == 1, within=30, what="one directory")
        rigs.eventually(lambda: not list(temporary(rig).iterdir()), within=30, what="the end of temporary files")
        (home,) = homes(rig)
        assert len(list(home.glob("blockmgr-*"))) <= 1
        assert [path for pid in drivers(worker) for path in unpacked_libraries(pid) if not path.startswith(str(home))] == []


def kill_driver(harness: KillHarness, phases: Sequence[Phase]) -> None:
    worker = harness.worker()
    for phase in phases:
        cell = harness.begin(phase)
        (driver,) = drivers(worker)
        os.kill(driver, signal.SIGKILL)
        cell.release_survivors(Process.DRIVER)
        assert harness.rig.ended(cell.workflow, within=kill_matrix.PATIENCE) == "COMPLETED", phase.name
        # Only a body that was using the driver fails; earlier and later phases continue with another driver, or without one.
        assert len(harness.rig.tasks(cell.workflow)) == 1 + (phase.sender in {Process.NONE, Process.DRIVER}), phase.name
        cell.check_at_end(worker)
    assert not worker.said("failed to clean local workspace")
    assert worker.stop() == 0


def temporary(rig: Rig) -> Path:
    return rig.folder / "tmp"


def homes(rig: Rig) -> list[Path]:
    """The directories of drivers, living and dead."""
    return list((rig.folder / "cache" / "spark").iterdir())


def drivers(worker: Worker) -> list[int]:
    executors = worker.executors()
    return [pid for executor in executors for pid in rigs.children(executor) if b"java" in rigs.command(pid)]


def drivers_on_this_machine(rig: Rig) -> list[int]:
    """Whoever's child they are: their command names a file of this rig."""
    ids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in ids if f"{rig.folder}/cache/spark/".encode() in rigs.command(pid)]


def unpacked_libraries(pid: int) -> list[str]:
    """Native code that a driver has unpacked for itself; nobody removes it when the driver is killed."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in maps if f" {tempfile.gettempdir()}/" in line and line.endswith(".so")})
