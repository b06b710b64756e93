"""Compares a Spark task in Perago with plain Spark on local files (the limit), on s3a, and with download and upload.

    .venv/bin/python bench/spark.py [--quick] [--json FILE]

One driver and one lakeFS serve all contestants, which take turns within each round; medians are compared. Exit code 1 if a target
is missed. --quick uses smaller sizes and fewer rounds, in which start-up time and chance have more influence, and omits scaling.
"""

import argparse
import json
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import _lakefs

from perago.attempt import transaction
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.http.request import HttpTimeouts
from perago.in_memory.lake import MAIN
from perago.lake.client import LakeFS
from perago.model import BranchName, LakeAccess, Repository, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import Scene
from perago.provision.progress import quiet
from perago.spark import engine, options, s3a, workspace
from perago.spark.session import SparkEngine
from perago.workspace import options as workspace_options
from perago.workspace.local_workspace import LocalWorkspace

MIB = 1 << 20
READ_LIMIT, WRITE_LIMIT = 1.5, 2.0
OVERHEAD_LIMIT = 1.0
SHARE_OF_A_MINUTE = 0.03
DRIVER = {"spark.driver.memory": "2g"}


@dataclass(frozen=True)
class Case:
    name: str
    megabytes: int
    files: int
    rounds: int


FULL = [Case("large files", 1024, 16, 3), Case("small files", 1024, 1000, 3)]
WARM_UP = Case("warm-up", 16, 2, 1)
"""The first run of any code in a Java virtual machine takes several times as long, for every contestant."""
QUICK = [Case("large files", 256, 4, 2), Case("small files", 16, 40, 1)]


class Bench:
    """One repository, one warm engine, one directory."""

    def __init__(self, endpoints: Endpoints, spark: SparkEngine, root: Path) -> None:
        self.lake = LakeFS(
            endpoints.lakefs_url,
            endpoints.access_key_id,
            endpoints.secret_access_key,
            timeouts=HttpTimeouts(connect=10, request=300),
        )
        self.access = LakeAccess(endpoints.s3_url, endpoints.access_key_id, endpoints.secret_access_key)
        self.store = _lakefs.Store(endpoints)
        self.repository = Repository(f"bench-spark-{secrets.token_hex(4)}")
        self.store.create_repository(self.repository)
        self.scene = Scene(self.lake, self.repository, prefix="data/")
        self.spark, self.root = spark, root
        self.body_seconds = 0.0
        self.seconds: dict[str, list[float]] = defaultdict(list)

    # contestants

    def attempt(self, body: Callable[[Any], object], *, read_only: bool = False) -> float:
        """Run one whole attempt; returns its seconds, and records those of its body separately."""

        def timed(argument: Any) -> object:
            self.body_seconds = took(lambda: body(argument))
            return {}

        polled, task = self.scene.start(), DictTask(timed, read_only)
        around = workspace.SparkDependencies(self.spark, self.access, lambda: False)

        def made(ref: WorkspaceRef) -> workspace.SparkBranchWorkspace:
            return workspace.SparkBranchWorkspace(self.lake, ref, "data", around)

        execution = replace(self.scene.execution(polled.attempt, task), workspaces=made)
        began = time.perf_counter()
        outcome = transaction.run(execution, polled.input)
        seconds = time.perf_counter() - began
        if outcome.status is not TaskStatus.COMPLETED:
            raise SystemExit(f"an attempt failed: {outcome.reason}")
        return seconds

    def plain(self, body: Callable[[Any], object]) -> float:
        """Run the body with the same session settings, without Perago."""
        session = self.spark.session(s3a.session_settings(self.repository, self.access))
        try:
            return took(lambda: body(session.spark))
        finally:
            session.close()

    def by_hand(self, name: str, body: Callable[[Any, Path], object]) -> float:
        """Download, Spark on local files, upload and commit."""
        settings = workspace_options.WorkspaceOptions(self.root / "attempts", self.root / f"cache-{name}", cache_bytes=0)
        attempt, branch = self.scene.start().attempt, BranchName(f"by-hand-{secrets.token_hex(4)}")
        execution: Any = secrets.token_hex(4)
        session = self.spark.session({})

        def all_of_it() -> None:
            local = LocalWorkspace(self.lake, self.scene.target(), "data", attempt, execution, settings)
            local.open()
            body(session.spark, local.argument())
            if not local.changed().is_empty:
                self.lake.create_branch(self.repository, branch, self.scene.a)
                local.fill(branch)
                self.lake.commit_branch(self.repository, branch, "by hand", {})
            local.close()

        try:
            return took(all_of_it)
        finally:
            session.close()

    # measurements

    def run(self, case: Case) -> None:
        source = self.root / case.name.replace(" ", "-")
        session = self.spark.session({})
        rows = case.megabytes * MIB // 64
        random = [f"xxhash64(id, {number}) as c{number}" for number in range(7)]
        session.spark.range(0, rows, 1, case.files).selectExpr("id", *random).write.parquet(f"file://{source}")
        session.close()
        self.scene.renew()
        self.attempt(lambda argument: copy(argument.spark, f"file://{source}", argument.output("in"), case.files))
        self.scene.a = self.scene.head().id
        for number in range(case.rounds):
            for contestants in (self._reads(case.name, source), self._writes(case, source)):
                for contestant in contestants if number % 2 == 0 else reversed(contestants):
                    contestant()

    def _reads(self, name: str, source: Path) -> list[Callable[[], None]]:
        uri = s3a.base(self.repository, self.scene.a, "data/") + "in"

        def perago() -> None:
            self._attempted(f"{name}: read", lambda argument: scan(argument.spark, argument.input("in")), read_only=True)

        return [
            lambda: self._took(f"{name}: read file", self.plain(lambda spark: scan(spark, f"file://{source}"))),
            lambda: self._took(f"{name}: read s3a", self.plain(lambda spark: scan(spark, uri))),
            perago,
            lambda: self._took(
                f"{name}: read download",
                self.by_hand(f"{name}-read", lambda spark, work: scan(spark, f"file://{work}/in")),
            ),
        ]

    def _writes(self, case: Case, source: Path) -> list[Callable[[], None]]:
        name, given = case.name, f"file://{source}"

        def local() -> None:
            target = self.root / "written"
            self._took(f"{name}: write file", self.plain(lambda spark: copy(spark, given, f"file://{target}", case.files)))
            shutil.rmtree(target)

        def s3() -> None:
            branch = f"plain-{secrets.token_hex(4)}"
            self.store.create_branch(self.repository, branch, self.scene.a)
            uri = s3a.base(self.repository, branch, "data/") + "out"
            self._took(f"{name}: write s3a", self.plain(lambda spark: copy(spark, given, uri, case.files)))

        def perago() -> None:
            self._attempted(f"{name}: write", lambda argument: copy(argument.spark, given, argument.output("out"), case.files))
            self.lake.relocate(self.repository, MAIN, self._at(self.scene.a), timeout=60)

        def by_hand() -> None:
            body = self.by_hand(f"{name}-write", lambda spark, work: copy(spark, given, f"file://{work}/out", case.files))
            self._took(f"{name}: write download", body)

        return [local, s3, perago, by_hand]

    def _took(self, label: str, seconds: float) -> None:
        self.seconds[label].append(seconds)

    def _attempted(self, label: str, body: Callable[[Any], object], *, read_only: bool = False) -> None:
        seconds = self.attempt(body, read_only=read_only)
        self._took(f"{label} perago", seconds)
        self._took(f"{label} overhead", seconds - self.body_seconds)

    def _at(self, commit: Any) -> BranchName:
        name = BranchName(f"back-{secrets.token_hex(4)}")
        self.lake.create_branch(self.repository, name, commit)
        return name

    def close(self) -> None:
        self.store.delete_repository(self.repository)
        self.lake.close()


def scan(spark: Any, uri: str) -> None:
    """Read every byte of every column."""
    columns = [f"bit_xor(c{number})" for number in range(7)]
    spark.read.parquet(uri).selectExpr("sum(id)", *columns).collect()


def copy(spark: Any, source: str, target: str, files: int) -> None:
    spark.read.parquet(source).repartition(files).write.mode("overwrite").parquet(target)


def scaling(root: Path, rows: int) -> dict[int, float]:
    """Time a fixed job of many small tasks on one and on two executors, each a process with one core."""
    found: dict[int, float] = {}
    for executors in (1, 2):
        chosen = {**DRIVER, "spark.master": f"local-cluster[{executors},1,1024]", "spark.executor.memory": "1g"}
        spark = engine.make(options.SparkOptions(root / f"scaling-{executors}", properties=chosen), quiet)
        session = spark.session({})
        hashed(session.spark, rows // 10)
        found[executors] = took(lambda spark=session.spark: hashed(spark, rows))
        session.close()
        spark.close()
    return found


def hashed(spark: Any, rows: int) -> None:
    """Run the job with a new plan each time: Spark would reuse the shuffled stages of an old plan and compute nothing."""
    spark.range(0, rows, 1, 64).selectExpr("bit_xor(xxhash64(id, sha2(cast(id as string), 256))) as x").collect()


def took(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def verdicts(bench: Bench, warm: float) -> Generator[dict[str, Any]]:
    def median(label: str) -> float:
        return statistics.median(bench.seconds[label])

    for what, limit in (("read", READ_LIMIT), ("write", WRITE_LIMIT)):
        ratio = median(f"large files: {what} perago") / median(f"large files: {what} file")
        yield {"target": f"{what} <= {limit} x file", "measured": f"{ratio:.2f} x", "reached": ratio <= limit}
    yield {"target": f"warm attempt < {OVERHEAD_LIMIT} s", "measured": f"{warm:.2f} s", "reached": warm < OVERHEAD_LIMIT}
    most = max(median(f"{case}: {what} overhead") for case in ("large files", "small files") for what in ("read", "write"))
    share = most / 60
    text = f"adds < {SHARE_OF_A_MINUTE:.0%} to a job of a minute"
    yield {"target": text, "measured": f"{share:.1%} ({most:.2f} s)", "reached": share < SHARE_OF_A_MINUTE}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as temporary, _lakefs.alone() as endpoints:
        root = Path(temporary)
        spark = engine.make(options.SparkOptions(root / "spark", properties=DRIVER), quiet)
        start = took(spark.start)
        bench = Bench(endpoints, spark, root)
        try:
            cold = start + bench.attempt(lambda argument: argument.spark.range(1).count())
            warm = statistics.median(bench.attempt(lambda argument: argument.output("x")) for _ in range(5))
            bench.run(WARM_UP)
            bench.seconds.clear()
            for case in QUICK if arguments.quick else FULL:
                bench.run(case)
        finally:
            bench.close()
            spark.close()
        scaled = {} if arguments.quick else scaling(root, 60_000_000)
        judged = list(verdicts(bench, warm))
    print(f"first attempt, cold: {cold:.2f} s (of which Spark's start {start:.2f} s); warm: {warm:.2f} s")
    for label, seconds in bench.seconds.items():
        print(f"  {label:28} {statistics.median(seconds):8.2f} s  [{min(seconds):.2f} to {max(seconds):.2f}]")
    if scaled:
        print(f"one executor {scaled[1]:.2f} s, two {scaled[2]:.2f} s: {scaled[1] / scaled[2]:.2f} times as fast")
    for verdict in judged:
        word = "reached" if verdict["reached"] else "MISSED"
        print(f"  {word:8} {verdict['target']}: {verdict['measured']}")
    if arguments.json:
        found = {"cold": cold, "start": start, "warm": warm, "seconds": bench.seconds, "scaling": scaled, "targets": judged}
        arguments.json.write_text(json.dumps(found, indent=2))
    return 0 if all(verdict["reached"] for verdict in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
