"""Compares a Spark task in Perago with plain Spark on local files (the limit), on s3a, and with download and upload.

    .venv/bin/python bench/spark.py [--quick] [--case CASE] [--json FILE]

One driver and one lakeFS serve all contestants, which take turns within each round; medians are compared. Exit code 1 if a target
is missed. --quick uses smaller sizes and fewer rounds, and omits scaling and the writes of small files.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import _lakefs
import _spark_scaling
import _spark_start
from _spark_start import DRIVER, took

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
from perago.spark import engine, options, runtime, s3a, workspace
from perago.spark.session import SparkEngine
from perago.workspace import options as workspace_options
from perago.workspace.local_workspace import LocalWorkspace

MIB = 1 << 20
READ_LIMIT, WRITE_LIMIT = 1.3, 2.0
SMALL_LIMIT = 1.1
COLD_LIMIT, RUN_LIMIT = 6.0, 12.0
OVERHEAD_LIMIT = 1.0
SHARE_OF_A_MINUTE = 0.03
HADOOP_DEFAULTS = {"fs.s3a.input.stream.type": "default"}
"""How S3A reads where nothing was chosen."""
NO_MORE: Mapping[str, str] = {}
CASES = ("start", "run", "large", "small", "scaling")


@dataclass(frozen=True)
class Case:
    name: str
    megabytes: int
    files: int
    reads: int
    writes: int
    """Rounds."""


FULL = {"large": Case("large files", 1024, 16, 7, 3), "small": Case("small files", 1024, 1000, 5, 2)}
WARM_UP = Case("warm-up", 64, 8, 3, 1)
"""The first runs of any code in a Java virtual machine take several times as long, for every contestant."""
QUICK = {"large": Case("large files", 256, 4, 5, 1), "small": Case("small files", 200, 200, 3, 0)}


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

    def plain(self, body: Callable[[Any], object], more: Mapping[str, str] = NO_MORE) -> float:
        """Run the body with the same session settings, without Perago. `more` needs an S3A client that was opened with it."""
        session = self.spark.session({**s3a.session_settings(self.repository, self.access), **more})
        try:
            if more:
                self._reopen(session.spark)
            return took(lambda: body(session.spark))
        finally:
            session.close()
            if more:
                self.plain(self._reopen)

    def _reopen(self, spark: Any) -> None:
        """Replace the S3A client of the repository, which the sessions of a driver share, by one with this session's settings."""
        jvm = spark._jvm  # noqa: SLF001  pyspark has no interface for it
        jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        jvm.org.apache.hadoop.fs.Path(f"s3a://{self.repository}/main/").getFileSystem(configuration)

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
        for rounds, contestants in ((case.reads, self._reads(case.name, source)), (case.writes, self._writes(case, source))):
            for number in range(rounds):
                for contestant in contestants if number % 2 == 0 else reversed(contestants):
                    contestant()

    def _reads(self, name: str, source: Path) -> list[Callable[[], None]]:
        uri = s3a.base(self.repository, self.scene.a, "data/") + "in"

        def perago() -> None:
            self._attempted(f"{name}: read", lambda argument: scan(argument.spark, argument.input("in")), read_only=True)

        return [
            lambda: self._took(f"{name}: read file", self.plain(lambda spark: scan(spark, f"file://{source}"))),
            lambda: self._took(f"{name}: read s3a", self.plain(lambda spark: scan(spark, uri), HADOOP_DEFAULTS)),
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


def verdicts(seconds: Mapping[str, Sequence[float]]) -> Generator[dict[str, Any]]:
    """The targets of the cases that were measured."""

    def median(label: str) -> float:
        return statistics.median(seconds[label])

    def at_most(text: str, measured: float, limit: float, unit: str) -> dict[str, Any]:
        return {"target": f"{text} <= {limit:g} {unit}", "measured": f"{measured:.2f} {unit}", "reached": measured <= limit}

    for what, limit in (("read", READ_LIMIT), ("write", WRITE_LIMIT)):
        if f"large files: {what} perago" in seconds:
            ratio = median(f"large files: {what} perago") / median(f"large files: {what} file")
            yield at_most(f"{what} of large files", ratio, limit, "x file")
    if "small files: read perago" in seconds:
        best = min(median(f"small files: read {peer}") for peer in ("download", "s3a"))
        ratio = median("small files: read perago") / best
        yield at_most("read of small files", ratio, SMALL_LIMIT, "x the better of download and s3a")
    if overheads := [median(label) for label in seconds if label.endswith("overhead")]:
        share = max(overheads) / 60
        text = f"adds < {SHARE_OF_A_MINUTE:.0%} to a job of a minute"
        yield {"target": text, "measured": f"{share:.1%} ({max(overheads):.2f} s)", "reached": share < SHARE_OF_A_MINUTE}
    limits = {"cold first attempt": COLD_LIMIT, "perago run": RUN_LIMIT, "warm attempt": OVERHEAD_LIMIT}
    for label, limit in limits.items():
        if label in seconds:
            yield at_most(label, median(label), limit, "s")


def measure(chosen: Sequence[str], *, is_quick: bool) -> dict[str, list[float]]:
    """Seconds by label, of the chosen cases."""
    rounds, cases = (3, QUICK) if is_quick else (5, FULL)
    found: dict[str, list[float]] = defaultdict(list)
    if "run" in chosen:
        found["perago run"] = [_spark_start.tiny_run() for _ in range(rounds)]
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as temporary:
        root = Path(temporary)
        with _lakefs.alone() as endpoints:
            if "start" in chosen:
                starts(endpoints, found, rounds)
            selected = [cases[name] for name in cases if name in chosen]
            if selected or "start" in chosen:
                warm(endpoints, root, selected, found)
        if "scaling" in chosen and not is_quick:
            for executors, seconds in _spark_scaling.measure(root, 60_000_000).items():
                found[f"fixed job, executors: {executors}"] = [seconds]
    return found


def starts(endpoints: Endpoints, found: dict[str, list[float]], rounds: int) -> None:
    """Cold attempts, each in a new process and in its own repository."""
    store = _lakefs.Store(endpoints)
    for _ in range(rounds):
        repository = f"bench-start-{secrets.token_hex(4)}"
        store.create_repository(repository)
        start, attempt = _spark_start.cold(endpoints, repository)
        store.delete_repository(repository)
        found["Spark's start"].append(start)
        found["attempt after it"].append(attempt)
        found["cold first attempt"].append(start + attempt)


def warm(endpoints: Endpoints, root: Path, cases: Sequence[Case], found: dict[str, list[float]]) -> None:
    """All that one running driver serves."""
    spark = engine.make(options.SparkOptions(root / "spark", properties=DRIVER), quiet)
    bench = Bench(endpoints, spark, root)
    try:
        bench.attempt(lambda argument: argument.spark.range(1).count())
        found["warm attempt"] = [bench.attempt(lambda argument: argument.output("x")) for _ in range(5)]
        if cases:
            bench.run(WARM_UP)
        bench.seconds.clear()
        for case in cases:
            bench.run(case)
        found.update(bench.seconds)
    finally:
        bench.close()
        spark.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--case", choices=CASES, action="append", help="measure this case only; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to this file")
    arguments = parser.parse_args()
    # What is made once per installation is not measured.
    runtime.ensure()
    seconds = measure(arguments.case or CASES, is_quick=arguments.quick)
    for label, found in seconds.items():
        print(f"  {label:28} {statistics.median(found):8.2f} s  [{min(found):.2f} to {max(found):.2f}]")
    judged = list(verdicts(seconds))
    for verdict in judged:
        word = "reached" if verdict["reached"] else "MISSED"
        print(f"  {word:8} {verdict['target']}: {verdict['measured']}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"seconds": seconds, "targets": judged}, indent=2))
    return 0 if all(verdict["reached"] for verdict in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
