"""Compares the workspace engine with `lakectl` and `cp -r` on one real lakeFS: time, requests, memory and targets.

    .venv/bin/python bench/workspace.py [--quick] [--json FILE] [--case NAME]

The measurements are interleaved: each round runs every contestant once, phase by phase, and the medians are compared. Each
contestant starts on an idle disk: earlier writes have been synced, and no files have been removed shortly before. Exit code 1
if a target is missed. --quick uses smaller workspaces, in which start-up time and chance have more influence.
"""

import argparse
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import _engine
import _lakefs

PEAK_MEGABYTES = 150
MANY = 1000
"""With this number of files or more, nothing is removed until the end of the case: see `_engine`."""


@dataclass(frozen=True)
class Case:
    name: str
    files: int
    size: int
    rounds: int
    deletes: int = 0


FULL = [
    Case("2,000 x 10 KB", 2000, 10_000, 5, deletes=1000),
    Case("20 x 20 MiB", 20, 20 << 20, 3),
    Case("1 x 2 GiB", 1, 2 << 30, 3),
    Case("50,000 x 1 KB", 50_000, 1000, 3, deletes=1000),
]
QUICK = [
    Case("2,000 x 10 KB", 2000, 10_000, 2, deletes=1000),
    Case("20 x 20 MiB", 20, 20 << 20, 2),
    Case("1 x 256 MiB", 1, 256 << 20, 2),
    Case("4,000 x 1 KB", 4000, 1000, 2, deletes=1000),
]


@dataclass(frozen=True)
class Target:
    """`ours` may take at most `factor` times what `theirs` takes."""

    ours: str
    theirs: str
    factor: float
    only: str | None = None


TARGETS = [
    Target("perago download cold", "lakectl fs download", 1.0),
    Target("perago download warm", "cp -r", 2.0),
    Target("perago stage 1", "lakectl local commit 1", 1.0, only="2,000 x 10 KB"),
    Target("perago stage all", "lakectl local commit all", 1.0),
    Target("perago no-op diff", "lakectl local status", 1.0),
]
REQUEST_TARGETS = [("perago stage 1", "2,000 x 10 KB", 10)]


class Child:
    """The process of the engine, which reads and writes lines of JSON."""

    def __init__(self, store: _lakefs.Store, repository: str, root: Path) -> None:
        line = [sys.executable, str(Path(__file__).with_name("_engine.py"))]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        keys = store.endpoints
        setup = {"url": keys.lakefs_url, "key": keys.access_key_id, "secret": keys.secret_access_key}
        self._send({**setup, "repository": repository, "root": str(root)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def do(self, command: str, **details: object) -> dict[str, Any]:
        self._send({"do": command, **details})
        answer = self._process.stdout.readline() if self._process.stdout else ""
        if not answer:
            raise SystemExit(f"the engine ended in {command}")
        return json.loads(answer)

    def _send(self, message: object) -> None:
        if self._process.stdin:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()


class Run:
    """All rounds of one case."""

    def __init__(self, case: Case, store: _lakefs.Store, lakectl: _lakefs.Lakectl, root: Path) -> None:
        self.case = case
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.requests: dict[str, list[int]] = defaultdict(list)
        self.peak = 0.0
        self._store = store
        self._lakectl = lakectl
        self._root = root
        self._repository = f"bench-{secrets.token_hex(4)}"

    def run(self) -> None:
        commit = self._seed()
        for number in range(self.case.rounds):
            self._round(number, commit)
            print(f"  {self.case.name}: round {number + 1} of {self.case.rounds}", file=sys.stderr)
        self._store.delete_repository(self._repository)
        shutil.rmtree(self._root)

    def _seed(self) -> str:
        first = self._store.create_repository(self._repository)
        with Child(self._store, self._repository, self._root / "seed") as child:
            child.do("open", ref=first, cache="cache")
            child.do("fill", files=self.case.files, size=self.case.size)
            return str(child.do("stage", branch="seed")["commit"])

    def _round(self, number: int, commit: str) -> None:
        place = self._root / f"round-{number}"
        place.mkdir()
        self._downloads(place, commit, number)
        self._stages(place, commit, number)
        self._drop(place)

    @contextmanager
    def _child(self, place: Path) -> Generator[Child]:
        """The engine in a new process; the cache stays."""
        with Child(self._store, self._repository, place / "perago") as child:
            yield child
            self.peak = max(self.peak, float(child.do("peak")["megabytes"]))
        self._drop(*(path for path in (place / "perago").iterdir() if path.name != "cache"))

    def _drop(self, *trees: Path) -> None:
        """Remove a few large files immediately: otherwise the next contestant would wait until the kernel frees memory."""
        if self.case.files < MANY:
            for tree in trees:
                shutil.rmtree(tree)

    def _downloads(self, place: Path, commit: str, number: int) -> None:
        uri = f"lakefs://{self._repository}/{commit}/data/"
        contestants: list[Callable[[], None]] = [
            lambda: self._cold(place, commit),
            lambda: self._other(
                "lakectl fs download", lambda: self._lakectl.run("fs", "download", "-r", uri, str(place / "down"))
            ),
        ]
        for contestant in contestants if number % 2 == 0 else reversed(contestants):
            contestant()
        self._verified(place / "down")
        self._other("cp -r", lambda: _cp(place / "down", place / "copy"))
        self._drop(place / "down", place / "copy")
        with self._child(place) as child:
            self._perago("perago download warm", child, "open", ref=commit, cache="cache")
            self._perago("perago no-op diff", child, "diff")

    def _cold(self, place: Path, commit: str) -> None:
        """Download cold. The verification of large files and their copies into the cache, made while the body runs, follow."""
        label = "perago download cold"
        with self._child(place) as child:
            self._perago(label, child, "open", ref=commit, cache="cache")
            total = self.seconds[label][-1]
            for step in ("verified", "cached"):
                total += float(child.do(step)["seconds"])
                self.seconds[f"{label}, {step}"].append(total)
                self.requests[f"{label}, {step}"].append(self.requests[label][-1])

    def _stages(self, place: Path, commit: str, number: int) -> None:
        branch, clone = f"lakectl-{number}", place / "clone"
        self._store.create_branch(self._repository, branch, commit)
        uri = f"lakefs://{self._repository}/{branch}/data/"
        self._other("lakectl local clone", lambda: self._lakectl.run("local", "clone", uri, str(clone)))
        self._other("lakectl local status", lambda: self._lakectl.run("local", "status", str(clone)))
        for label, kind, count in self._changes():
            _engine.change(clone, kind, count)
            with self._child(place) as child:
                child.do("open", ref=commit, cache="cache")
                child.do("change", kind=kind, count=count)
                self._perago(f"perago {label}", child, "stage", branch=f"perago-{number}-{label.replace(' ', '-')}")
            name = label.replace("stage", "lakectl local commit")
            self._other(name, lambda: self._lakectl.run("local", "commit", str(clone), "-m", "staged"))

    def _changes(self) -> list[tuple[str, str, int]]:
        changes = [("stage 1", "edit", 1)] if self.case.files > 1 else []
        changes.append(("stage all", "edit", -1))
        if self.case.deletes:
            changes.append((f"stage {self.case.deletes} deletes", "delete", self.case.deletes))
        return changes

    def _verified(self, down: Path) -> None:
        """Add the time to check the files that lakectl downloaded: Perago checks every byte, lakectl none."""
        label = "lakectl fs download + md5sum"
        self.seconds[label].append(self.seconds["lakectl fs download"][-1] + _md5sum(down))
        self.requests[label].append(self.requests["lakectl fs download"][-1])

    def _perago(self, label: str, child: Child, command: str, **details: object) -> None:
        os.sync()
        before = self._store.requests()
        answer = child.do(command, **details)
        self.seconds[label].append(float(answer["seconds"]))
        self.requests[label].append(self._store.requests() - before)

    def _other(self, label: str, action: Callable[[], float]) -> None:
        os.sync()
        before = self._store.requests()
        self.seconds[label].append(action())
        self.requests[label].append(self._store.requests() - before)


def _cp(source: Path, target: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    return time.perf_counter() - began


def _md5sum(directory: Path) -> float:
    """Run md5sum on all cores."""
    began = time.perf_counter()
    line = f"find . -type f -print0 | xargs -0 -n 200 -P {os.cpu_count()} md5sum >/dev/null"
    subprocess.run(line, shell=True, check=True, cwd=directory)
    return time.perf_counter() - began


def report(runs: list[Run]) -> list[dict[str, Any]]:
    """Print all measurements and targets; returns the targets as values."""
    verdicts: list[dict[str, Any]] = []
    for run in runs:
        print(f"\n{run.case.name}  ({run.case.rounds} rounds, medians; peak memory of the engine {run.peak:.0f} MB)")
        for label, seconds in run.seconds.items():
            requests = statistics.median_high(run.requests[label])
            spread = f"[{min(seconds):.3f} to {max(seconds):.3f}]"
            print(f"  {label:32} {statistics.median(seconds):9.3f} s   {requests:7} requests   {spread}")
        verdicts += _verdicts(run)
    print("\ntargets")
    for verdict in verdicts:
        word = "reached" if verdict["reached"] else "MISSED"
        print(f"  {word:8} {verdict['case']:15} {verdict['target']}: {verdict['measured']}")
    return verdicts


def _verdicts(run: Run) -> Generator[dict[str, Any]]:
    for target in TARGETS:
        if target.only in (None, run.case.name) and target.ours in run.seconds:
            ratio = statistics.median(run.seconds[target.ours]) / statistics.median(run.seconds[target.theirs])
            text = f"{target.ours} <= {target.factor:g} x {target.theirs}"
            yield {"case": run.case.name, "target": text, "measured": f"{ratio:.2f} x", "reached": ratio <= target.factor}
    for label, case, most in REQUEST_TARGETS:
        if case == run.case.name:
            count = max(run.requests[label])
            yield {"case": case, "target": f"{label} needs <= {most} requests", "measured": str(count), "reached": count <= most}
    text = f"peak memory of the engine <= {PEAK_MEGABYTES} MB"
    yield {"case": run.case.name, "target": text, "measured": f"{run.peak:.0f} MB", "reached": run.peak <= PEAK_MEGABYTES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements to this file")
    parser.add_argument("--case", action="append", metavar="NAME", help="only the cases whose name contains this")
    arguments = parser.parse_args()
    cases = [
        case
        for case in (QUICK if arguments.quick else FULL)
        if not arguments.case or any(part in case.name for part in arguments.case)
    ]
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as temporary, _lakefs.alone() as endpoints:
        root = Path(temporary)
        lakectl = _lakefs.Lakectl(endpoints, root)
        for case in cases:
            (root / case.name).mkdir()
            runs.append(Run(case, _lakefs.Store(endpoints), lakectl, root / case.name))
            runs[-1].run()
    verdicts = report(runs)
    if arguments.json:
        measured = [
            {"case": run.case.name, "seconds": run.seconds, "requests": run.requests, "peak_megabytes": run.peak} for run in runs
        ]
        arguments.json.write_text(json.dumps({"measured": measured, "targets": verdicts}, indent=1))
    return 0 if all(verdict["reached"] for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
