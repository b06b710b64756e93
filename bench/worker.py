"""Compares the worker with the official one and with a bare HTTP loop, on a real Conductor and lakeFS, in turns.

    .venv/bin/python bench/worker.py [--quick] [--json FILE] [--stack FILE]

Throughput: the processes of the worker are stopped (SIGSTOP), no-op tasks are queued, the processes continue, and the time until
the last task is completed is measured, by the clock of the server, without the time to start workflows. Meanwhile the benchmark
sends next to nothing, because the server has the same two cores. Latency: one task at a time, from scheduled to completed by the
clock of the server. Further figures: CPU time of the worker and requests per task, the time that a workspace with one small
changed file adds to a task, the time from the death of an executor to the scheduled retry, and memory (PSS) and CPU of an idle
worker. Exit code 1 if a target is missed.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from perago.dev.stack import Endpoints, Stack
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import BranchName, Repository

HERE = Path(__file__).parent
PATIENCE = 60.0
SETTLING = 8.0
PEERS = ("perago", "sdk", "bare")
MODULES = {"perago": ["_worker_task"], "perago-two": ["_worker_task", "_worker_workspace"]}
"""In the comparison the worker serves one task type, as the others do."""


@dataclass(frozen=True)
class Size:
    rounds: int
    burst: int
    singles: int


FULL, QUICK = Size(5, 300, 30), Size(3, 100, 8)
AHEAD = 1.05
"""Target for the throughput, to that of conductor-python."""
WORKFLOWS_CHECKED_EVERY = 0.1


class Server:
    """Conductor over plain HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(maxsize=8, retries=False)
        self._sent = 0

    def requests_of_others(self) -> int:
        """How many requests the server has answered so far, without those of this client."""
        text = self._pool.request("GET", self.url.removesuffix("/api") + "/actuator/prometheus", timeout=60).data.decode()
        counts = re.findall(r'^http_server_requests_seconds_count\{.*uri="/api.*\} (\S+)$', text, re.MULTILINE)
        return sum(int(float(count)) for count in counts) - self._sent

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        self._sent += 1
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(method, self.url + path, body=data, headers={"Content-Type": "application/json"}, timeout=60)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data!r}")
        text = answer.data.decode()
        return json.loads(text) if text[:1] in {"{", "["} else text

    def define(self, task_type: str) -> None:
        definition = {"name": task_type, "ownerEmail": "bench@example.com", "retryCount": 3, "retryDelaySeconds": 0}
        self.call("POST", "/metadata/taskdefs", [definition | {"responseTimeoutSeconds": 600, "timeoutSeconds": 0}])

    def start(self, task_type: str, given: dict[str, Any]) -> str:
        step = {"name": task_type, "taskReferenceName": "it", "type": "SIMPLE", "inputParameters": given}
        definition = {
            "name": f"{task_type}.workflow",
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "bench@example.com",
            "tasks": [step],
            "timeoutSeconds": 0,
            "timeoutPolicy": "ALERT_ONLY",
        }
        return str(self.call("POST", "/workflow", {"name": definition["name"], "version": 1, "workflowDef": definition}))

    def tasks(self, workflow: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/workflow/{workflow}?includeTasks=true")["tasks"]
        return found

    def completed(self, workflow: str) -> dict[str, Any]:
        """Wait until the workflow has ended; returns its task."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.call("GET", f"/workflow/{workflow}?includeTasks=false")["status"] == "COMPLETED":
                return self.tasks(workflow)[-1]
            time.sleep(0.005)
        raise RuntimeError(f"workflow {workflow} did not complete")


@dataclass
class Peer:
    """The processes of one contestant: a separate process group, so that all of them stop and continue together."""

    name: str
    slots: int
    task_type: str
    process: "subprocess.Popen[bytes]"
    rates: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])
    """Of all its processes, per task."""
    requests: list[float] = field(default_factory=list[float])
    """Per task."""
    latencies: list[float] = field(default_factory=list[float])

    def pids(self) -> list[int]:
        """All processes with their descendants: executors have their own process groups."""
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(child) for child in task.read_text().split()]
        return found

    def signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            os.kill(pid, number)

    @contextmanager
    def stopped(self) -> Generator[None]:
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def close(self) -> None:
        victims = self.pids()
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def command(name: str, slots: int, task_type: str, url: str) -> list[str]:
    if name in MODULES:
        main = "from perago.cli.main import main; main()"
        return [sys.executable, "-c", main, "start", *MODULES[name], "-j", str(slots), "--register"]
    return [sys.executable, str(HERE / "_worker_peers.py"), name, url, task_type, str(slots)]


def started(server: Server, stack: Endpoints, name: str, slots: int, folder: Path) -> Peer:
    task_type = f"bench_{name}_{slots}_{uuid.uuid4().hex[:8]}"
    server.define(task_type)
    environment = {
        **os.environ,
        **stack.environment(),
        "BENCH_TASK": task_type,
        "PERAGO_LOG_ROOT": str(folder / "logs"),
        "PERAGO_WORKSPACE_ROOT": str(folder / "workspaces"),
        "PERAGO_CACHE_ROOT": str(folder / "cache"),
        "PYTHONPATH": str(HERE),
    }
    with (folder / f"{task_type}.out").open("wb") as output:
        process = subprocess.Popen(
            command(name, slots, task_type, server.url), cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    peer = Peer(name, slots, task_type, process)
    try:
        server.completed(server.start(task_type, given(0)))
    except RuntimeError:
        peer.close()
        raise
    return peer


def given(number: int) -> dict[str, Any]:
    return {"params": {"n": number}}


def burst(server: Server, peer: Peer, count: int) -> None:
    """Records tasks per second, and what each cost."""
    with peer.stopped():
        workflows = [server.start(peer.task_type, given(number)) for number in range(count)]
        pids, requests = peer.pids(), server.requests_of_others()
        cpu = sum(map(cpu_seconds, pids))
        began = time.time()
    for workflow in workflows:
        while server.call("GET", f"/workflow/{workflow}?includeTasks=false")["status"] != "COMPLETED":
            if time.time() > began + PATIENCE:
                raise RuntimeError(f"workflow {workflow} did not complete")
            time.sleep(WORKFLOWS_CHECKED_EVERY)
    peer.cpu_ms.append(1000 * (sum(map(cpu_seconds, pids)) - cpu) / count)
    peer.requests.append((server.requests_of_others() - requests) / count)
    ended = max(server.tasks(workflow)[-1]["endTime"] for workflow in workflows) / 1000
    peer.rates.append(count / (ended - began))


def latency(server: Server, task_type: str, inputs: dict[str, Any]) -> float:
    """Milliseconds from scheduled to completed by the server's clock."""
    task = server.completed(server.start(task_type, inputs))
    return float(task["endTime"] - task["scheduledTime"])


@contextmanager
def running(make: Callable[[], Peer]) -> Generator[Peer]:
    peer = make()
    try:
        yield peer
    finally:
        peer.close()


def race(server: Server, stack: Endpoints, folder: Path, slots: int, size: Size) -> dict[str, dict[str, Any]]:
    """Measure all contestants in turn, while all of them run."""
    with ExitStack() as things:
        peers = [things.enter_context(running(lambda name=name: started(server, stack, name, slots, folder))) for name in PEERS]
        for number in range(size.rounds):
            for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                others = [other for other in peers if other is not peer]
                with ExitStack() as quiet:
                    # Otherwise the others would keep polling on the same two cores.
                    for other in others:
                        quiet.enter_context(other.stopped())
                    burst(server, peer, size.burst)
                    peer.latencies += [latency(server, peer.task_type, given(n)) for n in range(size.singles)]
    return {
        peer.name: {
            "tasks_per_second": statistics.median(peer.rates),
            "latency_ms": statistics.median(peer.latencies),
            "cpu_ms": statistics.median(peer.cpu_ms),
            "requests": statistics.median(peer.requests),
            "rounds": peer.rates,
        }
        for peer in peers
    }


def transaction(server: Server, stack: Endpoints, peer: Peer, count: int) -> dict[str, float]:
    """Measure the time that a workspace with one changed file adds to a task."""
    repository = Repository(f"bench-{uuid.uuid4().hex[:10]}")
    lake = LakeFS(stack.lakefs_url, stack.access_key_id, stack.secret_access_key, timeouts=HttpTimeouts(10, 60))
    pool = urllib3.PoolManager(headers=urllib3.make_headers(basic_auth=f"{stack.access_key_id}:{stack.secret_access_key}"))
    body = json.dumps({"name": repository, "storage_namespace": f"local://{repository}"})
    api = f"{stack.lakefs_url}/api/v1/repositories"
    pool.request("POST", api, body=body, headers={**pool.headers, "Content-Type": "application/json"}, timeout=30)
    free, bound = [], []
    head = lake.head(repository, BranchName("main")).id
    for number in range(count):
        free.append(latency(server, peer.task_type, given(number)))
        workspace = {"repository": repository, "branch": "main", "ref_type": "commit", "ref": head}
        workflow = server.start(f"{peer.task_type}.workspace", {**given(number), "workspace": workspace})
        task = server.completed(workflow)
        bound.append(float(task["endTime"] - task["scheduledTime"]))
        head = task["outputData"]["workspace"]["ref"]
    pool.request("DELETE", f"{api}/{repository}?force=true", timeout=30)
    lake.close()
    return {"workspace_free_ms": statistics.median(free), "workspace_ms": statistics.median(bound)}


def recovery(server: Server, stack: Endpoints, folder: Path, count: int) -> float:
    """The longest time in seconds from the death of an executor to the scheduled retry."""
    worst = 0.0
    with running(lambda: started(server, stack, "perago", 1, folder)) as peer:
        for number in range(count):
            executors = [pid for pid in peer.pids() if b"perago.executor.main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            executor = executors[-1]  # after its guardian, whose command line names it too
            # The task that a stopped executor has taken stays in progress until the executor is killed.
            os.kill(executor, signal.SIGSTOP)
            workflow = server.start(peer.task_type, given(number))
            while server.tasks(workflow)[0]["status"] != "IN_PROGRESS":
                time.sleep(0.01)
            began = time.monotonic()
            os.kill(executor, signal.SIGKILL)
            while len(server.tasks(workflow)) < 2:
                time.sleep(0.005)
            worst = max(worst, time.monotonic() - began)
            server.completed(workflow)
    return worst


def idle(peer: Peer, seconds: float) -> dict[str, float]:
    # The last executors may still be importing.
    time.sleep(SETTLING)
    pids = peer.pids()
    before = sum(map(cpu_seconds, pids))
    time.sleep(seconds)
    return {
        "pss_mb": sum(map(pss_kb, pids)) / 1024,
        "cpu_percent": 100 * (sum(map(cpu_seconds, pids)) - before) / seconds,
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def measure(stack: Endpoints, size: Size) -> dict[str, Any]:
    server = Server(stack.conductor_url)
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        folder = Path(name)
        found: dict[str, Any] = {f"j{slots}": race(server, stack, folder, slots, size) for slots in (1, 4)}
        with running(lambda: started(server, stack, "perago-two", 4, folder)) as peer:
            found["idle"] = idle(peer, 2.0 if size is QUICK else 20.0)
            found["transaction"] = transaction(server, stack, peer, size.singles)
        found["recovery_seconds"] = recovery(server, stack, folder, 1 if size is QUICK else 5)
    return found


def targets(found: dict[str, Any]) -> list[tuple[str, bool]]:
    rows: list[tuple[str, bool]] = []
    for slots in (1, 4):
        rates = {name: found[f"j{slots}"][name]["tasks_per_second"] for name in PEERS}
        rows += [
            (
                f"j={slots}: {rates['perago'] / rates['sdk']:.2f} x conductor-python's {rates['sdk']:.1f} tasks/s >= {AHEAD}",
                rates["perago"] >= AHEAD * rates["sdk"],
            ),
            (
                f"j={slots}: {rates['perago']:.1f} tasks/s >= 0.8 of the bare loop's {rates['bare']:.1f}",
                rates["perago"] >= 0.8 * rates["bare"],
            ),
        ]
    memory, after = found["idle"]["pss_mb"], found["recovery_seconds"]
    return [*rows, (f"idle memory {memory:.0f} MB <= 250 MB", memory <= 250), (f"recovery {after:.2f} s <= 2 s", after <= 2)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, in which chance has more influence")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    if options.stack is not None:
        found = measure(Endpoints.from_json(options.stack.read_text()), size)
    else:
        with Stack() as stack:
            found = measure(stack.endpoints, size)
    for slots in (1, 4):
        for name, figures in found[f"j{slots}"].items():
            print(
                f"j={slots}  {name:8} {figures['tasks_per_second']:8.1f} tasks/s {figures['latency_ms']:8.1f} ms, "
                f"per task {figures['cpu_ms']:.1f} ms of CPU and {figures['requests']:.2f} requests"
            )
    added = found["transaction"]["workspace_ms"] - found["transaction"]["workspace_free_ms"]
    print(f"workspace task: {added:.0f} ms more than {found['transaction']['workspace_free_ms']:.0f} ms")
    print(f"idle, j=4: {found['idle']['pss_mb']:.0f} MB, {found['idle']['cpu_percent']:.1f} % of a core")
    rows = targets(found)
    for text, met in rows:
        print(f"{'ok    ' if met else 'MISSED'} {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0 if all(met for _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
