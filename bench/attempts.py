"""Measures attempts in a row through a real worker: the first, the later ones, `cp -r` of the same files, and the public package.

    PYTHONPATH=. .venv/bin/python bench/attempts.py [--quick] [--json FILE] [--workspaces DIRECTORY] [--without-peer]

A task changes one of 2,000 files of 10 KB, each attempt on the commit of the one before. Its time is from the poll to the report,
by Conductor's clock. Between two attempts `cp -r` copies the same files on the same file system, into a directory that is kept:
attempts create and remove files all the time, which slows some file systems down, and must not slow down the copies. Afterwards
the worker of the package `perago` 0.6.1 from PyPI, in an environment of its own, and ours take turns. `--workspaces` selects
another file system. Exit code 1 if a target is missed.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._lakefs import Store
from bench._worker_processes import Server

from perago.dev.stack import Endpoints, Stack
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import BranchName, CommitId, ObjectPath, Repository
from perago.provision import artifact_cache

ROOT = Path(__file__).parent.parent
MAIN = BranchName("main")
SIZE = 10_000
PEER = "perago==0.6.1"
COPY_RATIO, PEER_RATIO = 2.0, 20.0
PATIENCE = 300.0


@dataclass(frozen=True)
class Size:
    files: int
    attempts: int
    peer_rounds: int


FULL, QUICK = Size(2000, 20, 3), Size(2000, 8, 1)


@dataclass(frozen=True)
class Branch:
    """A repository with the files on its branch, and the attempts that change them one after another."""

    server: Server
    repository: Repository
    first: CommitId

    def attempts(self, task_type: str, ref_type: str) -> Iterator[float]:
        """Seconds of one more attempt."""
        head: str = self.first
        for number in range(sys.maxsize):
            workspace = {"repository": self.repository, "branch": MAIN, ref_type: "commit", "ref": head}
            workflow = self.server.start(task_type, {"params": {"n": number}, "workspace": workspace})
            task = _completed(self.server, workflow)
            head = task["outputData"]["workspace"]["ref"]
            yield (task["endTime"] - task["startTime"]) / 1000


def _completed(server: Server, workflow: str) -> dict[str, Any]:
    """Waits long: an attempt of the public package takes half a minute."""
    deadline = time.monotonic() + PATIENCE
    found = server.call("GET", f"/workflow/{workflow}?includeTasks=true")
    while found["status"] == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.02)
        found = server.call("GET", f"/workflow/{workflow}?includeTasks=true")
    if found["status"] != "COMPLETED":
        raise SystemExit(f"workflow {workflow} is {found['status']}: {found.get('reasonForIncompletion')}")
    return dict(found["tasks"][-1])


class Bench:
    def __init__(self, stack: Endpoints, folder: Path, workspaces: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._workspaces = workspaces
        self._store = Store(stack)
        self.server = Server(stack.conductor_url)

    @contextlib.contextmanager
    def branch(self, files: int) -> Generator[Branch]:
        stack = self._stack
        repository = Repository(f"bench-{uuid.uuid4().hex[:10]}")
        self._store.create_repository(repository)
        lake = LakeFS(stack.lakefs_url, stack.access_key_id, stack.secret_access_key, timeouts=HttpTimeouts(10, 600))
        try:
            for first in range(0, files, 200):
                made = [
                    SmallFile(ObjectPath(f"data/{n:05d}"), f"{n:05d}".encode() * (SIZE // 5), "text/plain", {})
                    for n in range(first, first + 200)
                ]
                for _ in lake.write_small(repository, MAIN, made):
                    pass
            yield Branch(self.server, repository, lake.commit_branch(repository, MAIN, "files", {}).id)
        finally:
            lake.close()
            self._store.delete_repository(repository)

    @contextlib.contextmanager
    def worker(self, program: Path, *options: str) -> Generator[str]:
        """A worker with one slot; yields its task type. Nothing is cached when it starts."""
        task_type = f"bench_{uuid.uuid4().hex[:8]}"
        self.server.define(task_type)
        root = self._workspaces / task_type
        environment = {
            **os.environ,
            **self._stack.environment(),
            "BENCH_TASK": task_type,
            "PERAGO_LOG_ROOT": str(self._folder / task_type / "logs"),
            "PERAGO_WORKSPACE_ROOT": str(root / "attempts"),
            "PERAGO_CACHE_ROOT": str(root / "cache"),
            "PYTHONPATH": str(ROOT / "bench"),
        }
        with (self._folder / f"{task_type}.out").open("wb") as output:
            line = [program, "start", "_attempt_task", "-j", "1", *options]
            process = subprocess.Popen(line, cwd=self._folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield task_type
        finally:
            process.terminate()
            process.wait(60)

    def copy(self, files: int) -> Generator[float]:
        """Seconds of one more `cp -r` of so many files."""
        source = self._workspaces / "files"
        source.mkdir()
        for number in range(files):
            (source / f"{number:05d}").write_bytes(f"{number:05d}".encode() * (SIZE // 5))
        for number in range(sys.maxsize):
            began = time.perf_counter()
            subprocess.run(["cp", "-r", source, self._workspaces / f"copy-{number}"], check=True)
            yield time.perf_counter() - began


def peer_program() -> Path:
    """The public package in an environment of its own, which is kept in Perago's cache."""
    folder = artifact_cache.default_root() / "bench" / PEER.replace("==", "-")
    program, uv = folder / "bin" / "perago", str(Path(sys.executable).with_name("uv"))
    if not program.exists():
        print(f"installing {PEER} from PyPI", file=sys.stderr)
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", folder / "bin" / "python", PEER], check=True)
    return program


def own_program() -> Path:
    return Path(sys.executable).with_name("perago")


def in_a_row(bench: Bench, size: Size) -> dict[str, Any]:
    attempts: list[float] = []
    copies: list[float] = []
    with bench.branch(size.files) as branch, bench.worker(own_program(), "--register") as task_type:
        copy, run = bench.copy(size.files), branch.attempts(task_type, "ref_type")
        for number in range(size.attempts):
            attempts.append(next(run))
            copies.append(next(copy))
            print(f"  attempt {number + 1}: {attempts[-1]:.2f} s, cp -r {copies[-1]:.2f} s", file=sys.stderr)
    return {
        "attempts": attempts,
        "copies": copies,
        "later": statistics.median(attempts[1:]),
        "copy": statistics.median(copies),
        "ratio": statistics.median(attempts[1:]) / statistics.median(copies),
    }


def against_peer(bench: Bench, size: Size) -> dict[str, Any]:
    """The first attempt of each has an empty cache and is shown; the later ones are compared."""
    seconds: dict[str, list[float]] = {"perago": [], "peer": []}
    with (
        bench.branch(size.files) as one,
        bench.branch(size.files) as other,
        bench.worker(own_program(), "--register") as own_type,
        bench.worker(peer_program()) as peer_type,
    ):
        rows = {"perago": one.attempts(own_type, "ref_type"), "peer": other.attempts(peer_type, "refType")}
        for _ in range(1 + size.peer_rounds):
            for name, row in rows.items():
                seconds[name].append(next(row))
                print(f"  {name}: {seconds[name][-1]:.2f} s", file=sys.stderr)
    ours, theirs = (statistics.median(seconds[name][1:]) for name in ("perago", "peer"))
    first = seconds["peer"][0] / seconds["perago"][0]
    return {**seconds, "later": ours, "peer_later": theirs, "ratio": theirs / ours, "first_ratio": first}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer attempts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--workspaces", type=Path, metavar="DIRECTORY", help="where workspaces, cache and copies are")
    parser.add_argument("--without-peer", action="store_true", help="do not install and measure the public package")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="perago-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="perago-bench-", dir=options.workspaces) as workspaces,
        Stack() as stack,
    ):
        bench = Bench(stack.endpoints, Path(folder), Path(workspaces))
        found["row"] = row = in_a_row(bench, size)
        if not options.without_peer:
            found["peer"] = against_peer(bench, size)
    print(
        f"{size.attempts} attempts in a row: first {row['attempts'][0]:.2f} s, later {row['later']:.3f} s, tenth part slowest "
        f"{max(row['attempts'][1:]):.2f} s, cp -r {row['copy']:.3f} s"
    )
    rows = [(f"later attempts {row['ratio']:.2f} x cp -r <= {COPY_RATIO}", row["ratio"] <= COPY_RATIO)]
    if peer := found.get("peer"):
        print(f"perago 0.6.1: first {peer['peer'][0]:.1f} s ({peer['first_ratio']:.1f} x), later {peer['peer_later']:.1f} s")
        rows.append((f"{peer['ratio']:.1f} x faster than perago 0.6.1 >= {PEER_RATIO}", peer["ratio"] >= PEER_RATIO))
    for text, met in rows:
        print(f"{'ok    ' if met else 'MISSED'} {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0 if all(met for _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
