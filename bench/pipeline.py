"""Measures what a pipeline adds to its steps, and what the join of many writing lanes costs, on a real Conductor and lakeFS.

    PYTHONPATH=. .venv/bin/python bench/pipeline.py [--quick] [--json FILE] [--stack FILE] [--case NAME]

Overhead: a pipeline is submitted as `perago submit` does it, and the same workflow, written by hand, is started by two requests
(the head of the branch, the start). The two take turns with one worker; the time is from the first request to the end of the run
by Conductor's clock, on the same machine.

Lanes: `flow.each` over lanes that each write many small files. The join is compared with the least that its work takes: a plain
merge of the same commits, one after another, one listing of what each lane and all of them changed, and the publication of one
small file. lakeFS counts its requests, its memory is the peak of the executor. The same lanes also run in a repository with many
other objects. Exit code 1 if a target is missed.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._lakefs import Store

from perago.builtin import names
from perago.conductor import workflows
from perago.conductor.client import ConductorClient
from perago.conductor.workflows import WorkflowClient
from perago.dev.stack import Endpoints, Stack
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import BranchName, CommitId, LakeAccess, ObjectPath, Repository, WorkflowId, WorkspaceRef
from perago.operate import servers, submission
from perago.pipelines.flow import pipeline_of
from perago.pipelines.graph import Pipeline
from perago.settings import ConductorAccess

ROOT = Path(__file__).parent.parent
MAIN = BranchName("main")
PATIENCE = 1200.0
OVERHEAD = 1.02
JOIN_RATIO = 1.5
MEMORY_MB = 250
TASKS = ("append", "fill")
CASES = ("lanes", "row", "branching")
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Size:
    rounds: int
    lanes: int
    files: int
    lane_rounds: int
    others: int
    """Other objects in the second repository of lanes."""


FULL = Size(rounds=15, lanes=100, files=1000, lane_rounds=1, others=50_000)
QUICK = Size(rounds=3, lanes=10, files=100, lane_rounds=2, others=2_000)
STEP_SECONDS = 1.0
"""The work of a step. Conductor's queue hands out a task up to a tenth of a second late, which is noise beside shorter steps."""


class Bench:
    """Both servers, and one worker that serves the tasks of the pipelines."""

    def __init__(self, stack: Endpoints, size: Size, folder: Path) -> None:
        self.size = size
        self.stack = stack
        self.store = Store(stack)
        self._folder = folder
        self._access = ConductorAccess(stack.conductor_url)
        self._conductor = ConductorClient(stack.conductor_url, timeout=60.0)
        self.client = WorkflowClient(stack.conductor_url, timeout=60.0)
        self.lake = LakeFS(stack.lakefs_url, stack.access_key_id, stack.secret_access_key, timeouts=HttpTimeouts(10, 600))

    @contextlib.contextmanager
    def worker(self) -> Generator["subprocess.Popen[bytes]"]:
        environment = {
            **os.environ,
            **self.stack.environment(),
            "PERAGO_LOG_ROOT": str(self._folder / "logs"),
            "PERAGO_WORKSPACE_ROOT": str(self._folder / "workspaces"),
            "PERAGO_CACHE_ROOT": str(self._folder / "cache"),
            "PYTHONPATH": str(ROOT),
        }
        modules = [f"bench._pipeline_{name}" for name in TASKS]
        line = [sys.executable, "-c", "from perago.cli.main import main; main()", "start", *modules, "-j", "2", "--register"]
        with (self._folder / "worker.out").open("wb") as output:
            process = subprocess.Popen(line, cwd=self._folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    @contextlib.contextmanager
    def repository(self) -> Generator[Repository]:
        name = f"bench-{uuid.uuid4().hex[:10]}"
        self.store.create_repository(name)
        try:
            yield Repository(name)
        finally:
            self.store.delete_repository(name)

    def submit(self, pipeline: Pipeline, repository: Repository, inputs: Json) -> WorkflowId:
        """What `perago submit` does, without the start of its process."""
        with servers.connect(self.stack_access, self._access) as both:
            base = submission.find_base(both, repository, MAIN)
            tasks = submission.needed_tasks(pipeline)
            submission.without_workers(self.client, tasks, time.time())
            registered = submission.register(self._conductor, pipeline, tasks)
            return submission.start(self.client, registered.workflow, base.workspace, inputs, workflows.correlation_id())

    def start_by_hand(self, definition: Json, repository: Repository, inputs: Json) -> WorkflowId:
        head = self.lake.branch(repository, MAIN)
        given = {"workspace": WorkspaceRef(repository, MAIN, head).as_json(), **inputs}
        return self.client.start(workflows.Start(definition["name"], 1, given, workflows.correlation_id()))

    def register_by_hand(self, definition: Json) -> None:
        self._conductor.create_workflow_definition(definition)

    @property
    def stack_access(self) -> LakeAccess:
        return LakeAccess(self.stack.lakefs_url, self.stack.access_key_id, self.stack.secret_access_key)

    def ended(self, run: WorkflowId) -> Json:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = self.client.read(run, tasks=False)
            if found is not None and found["status"] != "RUNNING":
                break
            time.sleep(0.05)
        found = self.client.read(run)
        if found is None or found["status"] != "COMPLETED":
            raise SystemExit(f"run {run} did not complete: {found and found.get('reasonForIncompletion')}")
        return found


# overhead


def overhead(bench: Bench, pipeline: Pipeline, by_hand: Json) -> dict[str, float]:
    bench.register_by_hand(by_hand)
    declared: list[float] = []
    written: list[float] = []
    steps: list[float] = []
    turns: list[Callable[[Repository, Json], None]] = [
        lambda repository, inputs: declared.append(_seconds(bench, lambda: bench.submit(pipeline, repository, inputs), steps)),
        lambda repository, inputs: written.append(_seconds(bench, lambda: bench.start_by_hand(by_hand, repository, inputs), [])),
    ]
    for number in range(bench.size.rounds + 1):
        for turn in turns if number % 2 else reversed(turns):
            with bench.repository() as repository:
                turn(repository, {"seconds": STEP_SECONDS if number else 0})
        print(f"  {pipeline.name}: round {number} of {bench.size.rounds}", file=sys.stderr)
    # The first round waits for registration.
    of_pipeline, of_hand = statistics.median(declared[1:]), statistics.median(written[1:])
    return {"pipeline": of_pipeline, "by_hand": of_hand, "steps": statistics.median(steps[1:]), "ratio": of_pipeline / of_hand}


def _seconds(bench: Bench, start: Callable[[], WorkflowId], steps: list[float]) -> float:
    """From the first request to the end of the run; `steps` gets the sum of the times of its steps."""
    began = time.time()
    ended = bench.ended(start())
    tasks = [task for task in ended["tasks"] if task["taskType"].endswith(".append")]
    steps.append(sum(task["endTime"] - task["startTime"] for task in tasks) / 1000)
    return ended["endTime"] / 1000 - began


# lanes


def lanes(bench: Bench, pipeline: Pipeline, worker: int) -> tuple[dict[str, float], dict[str, float]]:
    """The quickest run of the lanes in an empty repository, and in one with other objects; they take turns."""
    alone: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    for _ in range(bench.size.lane_rounds):
        alone.append(_run_lanes(bench, pipeline, worker, 0))
        beside.append(_run_lanes(bench, pipeline, worker, bench.size.others))
    return min(alone, key=_join_seconds), min(beside, key=_join_seconds)


def _join_seconds(run: dict[str, float]) -> float:
    return run["join"]


def _run_lanes(bench: Bench, pipeline: Pipeline, worker: int, others: int) -> dict[str, float]:
    size = bench.size
    with bench.repository() as repository:
        base = _with_others(bench, repository, others)
        run = bench.submit(pipeline, repository, {"lanes": list(range(size.lanes)), "files": size.files})
        before = _watch_until_join(bench, run)
        ended = bench.ended(run)
        requests = bench.store.requests() - before
        joined = next(task for task in ended["tasks"] if task["taskType"] == names.JOIN)
        commits = [task["outputData"]["workspace"]["ref"] for task in ended["tasks"] if task["taskType"] == "SUB_WORKFLOW"]
        head = bench.lake.head(repository, MAIN)
        if head.parents != (base,):
            raise SystemExit(f"the lanes were not published as one commit on {base}: {head.parents}")
        changed = sum(1 for _ in bench.lake.differences(repository, base, head.id))
        if changed != size.lanes * size.files:
            raise SystemExit(f"{changed} objects were published instead of {size.lanes * size.files}")
        print(f"  {size.lanes} lanes of {size.files} files beside {others} other objects", file=sys.stderr)
        return {
            "join": (joined["endTime"] - joined["startTime"]) / 1000,
            "merges": _plain_merges(bench, repository, base, commits),
            "listings": _listings(bench, repository, base, [*commits, head.id]),
            "requests": requests,
            "memory_mb": _peak_memory_mb(worker),
            "run": (ended["endTime"] - ended["createTime"]) / 1000,
        }


def _with_others(bench: Bench, repository: Repository, others: int) -> CommitId:
    for at in range(0, others, 500):
        files = [SmallFile(ObjectPath(f"other/{n:07d}"), b"other", "text/plain", {}) for n in range(at, min(at + 500, others))]
        for _ in bench.lake.write_small(repository, MAIN, files):
            pass
    if others:
        return bench.lake.commit_branch(repository, MAIN, "other objects", {}).id
    return bench.lake.branch(repository, MAIN)


def _watch_until_join(bench: Bench, run: WorkflowId) -> int:
    """The server's count of requests when the lanes are done."""
    last = bench.store.requests()
    while True:
        found = bench.client.read(run)
        tasks: Sequence[Json] = [] if found is None else found["tasks"]
        if any(task["taskType"] == names.JOIN for task in tasks) or (found is not None and found["status"] != "RUNNING"):
            return last
        last = bench.store.requests()
        time.sleep(0.02)


def _plain_merges(bench: Bench, repository: Repository, base: CommitId, commits: Sequence[str]) -> float:
    """Seconds to merge the lanes' commits into a branch one after another."""
    branch = BranchName("plain-merges")
    bench.lake.create_branch(repository, branch, base)
    began = time.perf_counter()
    for commit in commits:
        bench.lake.merge(repository, CommitId(commit), branch, message="lane", metadata={}, timeout=600.0)
    return time.perf_counter() - began


def _listings(bench: Bench, repository: Repository, base: CommitId, commits: Sequence[str]) -> float:
    """Seconds to list what each of the commits changed."""
    began = time.perf_counter()
    for commit in commits:
        for _ in bench.lake.differences(repository, base, CommitId(commit)):
            pass
    return time.perf_counter() - began


def _peak_memory_mb(worker: int) -> float:
    """The peak of the worker's largest process so far."""
    found, todo = [0], [worker]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found += [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(child) for child in children.read_text().split()]
    return max(found) / 1024


# report


def measure(stack: Endpoints, size: Size, cases: Sequence[str]) -> dict[str, Any]:
    os.environ["BENCH_TASK"] = f"bench-{uuid.uuid4().hex[:8]}"
    from bench import _pipelines  # noqa: PLC0415  the names of its tasks come from the environment

    def declared(function: Any) -> Pipeline:
        found = pipeline_of(function)
        assert found is not None
        return found

    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        bench = Bench(stack, size, Path(name))
        with bench.worker() as worker:
            found: dict[str, Any] = {}
            if "lanes" in cases:
                found["lanes"], found["lanes_beside_others"] = lanes(bench, declared(_pipelines.lanes), worker.pid)
            if "row" in cases:
                found["row"] = overhead(bench, declared(_pipelines.row), _pipelines.row_by_hand())
            if "branching" in cases:
                found["branching"] = overhead(bench, declared(_pipelines.branching), _pipelines.branching_by_hand())
            return found


def targets(found: dict[str, Any], size: Size) -> list[tuple[str, bool]]:
    rows = [
        (f"{name}: {found[name]['ratio']:.3f} x the workflow written by hand <= {OVERHEAD}", found[name]["ratio"] <= OVERHEAD)
        for name in ("row", "branching")
        if name in found
    ]
    for name, beside in (("lanes", ""), ("lanes_beside_others", f" beside {size.others} other objects")):
        if (one := found.get(name)) is None:
            continue
        ratio = one["join"] / (one["merges"] + one["listings"] + _publication_seconds(found.get("row")))
        text = f"join of {size.lanes} lanes{beside}: {ratio:.2f} x merges, listings and one publication <= {JOIN_RATIO}"
        rows.append((text, ratio <= JOIN_RATIO))
        rows.append((f"peak memory of the executor {one['memory_mb']:.0f} MB <= {MEMORY_MB} MB", one["memory_mb"] <= MEMORY_MB))
    return rows


def _publication_seconds(row: dict[str, float] | None) -> float:
    """What a step of the row takes beside its work; nothing if that was not measured."""
    return 0.0 if row is None else row["steps"] / 5 - STEP_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, lanes and files")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; all by default")
    options = parser.parse_args()
    size, cases = QUICK if options.quick else FULL, options.case or CASES
    if options.stack is not None:
        found = measure(Endpoints.from_json(options.stack.read_text()), size, cases)
    else:
        with Stack() as stack:
            found = measure(stack.endpoints, size, cases)
    for name in [name for name in ("row", "branching") if name in found]:
        one = found[name]
        print(
            f"{name:10} pipeline {one['pipeline']:.3f} s, by hand {one['by_hand']:.3f} s, its steps alone {one['steps']:.3f} s, "
            f"added {1000 * (one['pipeline'] - one['by_hand']):.0f} ms"
        )
    for name in [name for name in ("lanes", "lanes_beside_others") if name in found]:
        one = found[name]
        print(
            f"{name:20} join {one['join']:.2f} s, plain merges {one['merges']:.2f} s, listings {one['listings']:.2f} s, "
            f"{one['requests']} requests, "
            f"executor {one['memory_mb']:.0f} MB, whole run {one['run']:.1f} s"
        )
    rows = targets(found, size)
    for text, met in rows:
        print(f"{'ok    ' if met else 'MISSED'} {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0 if all(met for _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
