"""The processes that `worker.py` measures, and Conductor as it is used by benchmarks: plain HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _request_log
import urllib3

from perago.dev.stack import Endpoints

HERE = Path(__file__).parent
PATIENCE = 60.0
MODULES = {"perago": ["_worker_task"], "perago-two": ["_worker_task", "_worker_workspace"]}
"""In the comparison the worker serves one task type, as the others do."""
REQUESTS = "requests"
"""The folder of the records of `perago-two`; see `_request_log`."""


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

    def completed(self, workflow: str, every: float = 0.005) -> dict[str, Any]:
        """Wait until the workflow has ended; returns its task."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.call("GET", f"/workflow/{workflow}?includeTasks=false")["status"] == "COMPLETED":
                return self.tasks(workflow)[-1]
            time.sleep(every)
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
        main = "import _request_log; _request_log.install(); from perago.cli.main import main; main()"
        return [sys.executable, "-c", main, "start", *MODULES[name], "-j", str(slots), "--register"]
    return [sys.executable, str(HERE / "_worker_peers.py"), name, url, task_type, str(slots)]


def started(server: Server, stack: Endpoints, name: str, slots: int, folder: Path) -> Peer:
    task_type = f"bench_{name}_{slots}_{uuid.uuid4().hex[:8]}"
    server.define(task_type)
    records = folder / REQUESTS
    records.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        **stack.environment(),
        "BENCH_TASK": task_type,
        "PERAGO_LOG_ROOT": str(folder / "logs"),
        "PERAGO_WORKSPACE_ROOT": str(folder / "workspaces"),
        "PERAGO_CACHE_ROOT": str(folder / "cache"),
        "PYTHONPATH": str(HERE),
        **({_request_log.VARIABLE: str(records)} if name == "perago-two" else {}),
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


@contextmanager
def running(make: Callable[[], Peer]) -> Generator[Peer]:
    peer = make()
    try:
        yield peer
    finally:
        peer.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
