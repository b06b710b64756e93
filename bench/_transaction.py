"""What a workspace adds to a task: tasks with and without one in turn, their requests, and the same requests by a bare client."""

import base64
import http.client
import json
import re
import socket
import statistics
import time
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import _request_log
from _worker_processes import Peer, Server, given

from perago.dev.stack import Endpoints
from perago.protocol import staging_names

WARM_UP = 10
"""Tasks of each kind before the measured ones: Conductor compiles its code while it runs."""
CHECKED_EVERY = 0.05
"""Seconds between two looks at a workflow, which take time of the cores that are measured."""
CLEAN_UP_SECONDS = 0.03
STAGING, BRANCH = "perago-staging-", "bare"
NAMES = (
    (r"GET /repositories/\w[^/]*/branches/main", "lakeFS: read the target branch"),
    (r"GET .*/objects/ls", "lakeFS: list the objects"),
    (r"POST /repositories/[^/]*/branches", "lakeFS: create the staging branch"),
    (r"POST .*/objects", "lakeFS: upload the file"),
    (r"POST .*/commits", "lakeFS: commit"),
    (r"GET /repositories/[^/]*/branches", "lakeFS: list the staging branches"),
    (r"GET .*/refs/main/commits", "lakeFS: read the head"),
    (r"POST .*/merge/main", "lakeFS: merge"),
    (r"GET .*/commits/\w+", "lakeFS: read the merge commit"),
    (r"DELETE .*", "lakeFS: delete the staging branch"),
    (r"GET /workflow/.*", "Conductor: read the workflow"),
    (r"GET /tasks/.*", "Conductor: read the task"),
    (r"POST /tasks(/update-v2)?", "Conductor: report"),
)
IN_TURN = tuple(
    f"lakeFS: {name}"
    for name in (
        *("read the target branch", "list the objects", "create the staging branch", "upload the file", "commit"),
        *("read the head", "merge", "read the merge commit"),
    )
)
"""Each of these needs the reply to the one before it."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds by Conductor's clock, from the poll to the report, and one row per request of the workspace task."""

    free: list[float]
    bound: list[float]
    requests: list[dict[str, Any]]

    @property
    def figures(self) -> dict[str, Any]:
        free, bound = statistics.median(self.free), statistics.median(self.bound)
        bare = [row["bare_ms"] for row in self.requests if row["name"] in IN_TURN]
        return {"workspace_free_ms": free, "workspace_ms": bound, "requests": self.requests, "bare_in_turn_ms": sum(bare)}


def measure(server: Server, stack: Endpoints, peer: Peer, records: Path, count: int) -> dict[str, Any]:
    """Tasks with and without a workspace, and bare transactions, in turn."""
    with _repository(stack) as (lake, repository):
        head = lake.send("GET", f"/repositories/{repository}/branches/main")["commit_id"]
        bare = BareTransactions(server, lake, Client(stack.conductor_url), repository, head)
        free: list[float] = []
        tasks: list[dict[str, Any]] = []
        for number in range(WARM_UP + count):
            task = _completed(server, server.start(peer.task_type, given(number)))
            free.append(float(task["endTime"] - task["startTime"]))
            workspace = {"repository": repository, "branch": "main", "ref_type": "commit", "ref": head}
            workflow = server.start(f"{peer.task_type}.workspace", {**given(number), "workspace": workspace})
            tasks.append(_completed(server, workflow))
            head = tasks[-1]["outputData"]["workspace"]["ref"]
            bare.run()
        tasks, bound = tasks[WARM_UP:], [float(task["endTime"] - task["startTime"]) for task in tasks[WARM_UP:]]
        return Measured(free[WARM_UP:], bound, _rows(tasks, _request_log.read(records), bare.times)).figures


def _completed(server: Server, workflow: str) -> dict[str, Any]:
    time.sleep(CHECKED_EVERY)
    return server.completed(workflow, every=CHECKED_EVERY)


# the requests of the worker


def _rows(
    tasks: Sequence[dict[str, Any]], sent: Sequence[_request_log.SentRequest], bare: dict[str, list[float]]
) -> list[dict[str, Any]]:
    """One row per request, in the order in which most of the attempts sent them."""
    attempts = [_requests_of(task, sent) for task in tasks]
    usual = Counter(tuple(sorted(name for name, _, _ in attempt)) for attempt in attempts).most_common(1)[0][0]
    like_most = [attempt for attempt in attempts if tuple(sorted(name for name, _, _ in attempt)) == usual]
    rows = [_row(name, number, like_most, bare) for name, times in Counter(usual).items() for number in range(times)]
    return sorted(rows, key=lambda row: row["began_ms"])


def _row(
    name: str, number: int, attempts: Sequence[Sequence[tuple[str, float, float]]], bare: dict[str, list[float]]
) -> dict[str, Any]:
    """`number`: the how manyth request of that name in its attempt."""
    found = [[(began, took) for other, began, took in attempt if other == name][number] for attempt in attempts]
    return {
        "name": name,
        "began_ms": statistics.median(began for began, _ in found),
        "took_ms": statistics.median(took for _, took in found),
        "bare_ms": statistics.median(bare[name][WARM_UP:]),
    }


def _requests_of(task: dict[str, Any], sent: Sequence[_request_log.SentRequest]) -> list[tuple[str, float, float]]:
    """Name, beginning after the poll, and duration of each request; in milliseconds."""
    first, last = task["startTime"] / 1000, task["endTime"] / 1000 + CLEAN_UP_SECONDS
    own = [one for one in sent if first <= one.began <= last and "/tasks/poll/" not in one.text]
    return [(_name(one.text), 1000 * (one.began - first), 1000 * one.seconds) for one in own]


def _name(text: str) -> str:
    path = text.partition("?")[0]
    return next((name for pattern, name in NAMES if re.fullmatch(pattern, path)), path)


# the same requests by a bare client


class Client:
    """One keep-alive connection."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._base, self._headers = parts.path, {"Content-Type": "application/json", **(headers or {})}
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method: str, path: str, body: object | None = None) -> Any:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        self._connection.request(method, self._base + path, data, self._headers)
        reply = self._connection.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {text!r}")
        return json.loads(text) if text[:1] in {b"{", b"["} else text

    def close(self) -> None:
        self._connection.close()


class BareTransactions:
    """Publications with the requests of a worker, one after another, and nothing else. `times`: milliseconds by request."""

    def __init__(self, server: Server, lake: Client, conductor: Client, repository: str, base: str) -> None:
        self._server, self._lake, self._conductor = server, lake, conductor
        self._in, self._head = f"/repositories/{repository}", base
        lake.send("POST", f"{self._in}/branches", {"name": BRANCH, "source": base})
        self._task_type = f"bench_bare_{uuid.uuid4().hex[:8]}"
        server.define(self._task_type)
        self.times: dict[str, list[float]] = {}

    def run(self) -> None:
        self._server.start(self._task_type, {})
        found: list[dict[str, Any]] = []
        while not found:
            found = self._server.call("GET", f"/tasks/poll/batch/{self._task_type}?count=1&timeout=1000&workerid=bench")
        task, staging = found[0], f"{STAGING}{uuid.uuid4().hex}"
        self._send("lakeFS: read the target branch", "GET", f"{self._in}/branches/{BRANCH}")
        self._send("lakeFS: list the objects", "GET", f"{self._in}/refs/{self._head}/objects/ls?prefix=data/&amount=1000")
        branch = {"name": staging, "source": self._head, "hidden": True}
        self._send("lakeFS: create the staging branch", "POST", f"{self._in}/branches", branch)
        content = str(time.time()).encode()
        self._send("lakeFS: upload the file", "POST", f"{self._in}/branches/{staging}/objects?path=data/counter", content)
        self._send("lakeFS: commit", "POST", f"{self._in}/branches/{staging}/commits", {"message": "bench"})
        for prefix in (staging_names.PREFIX, staging):
            listing = f"{self._in}/branches?show_hidden=true&prefix={prefix}&amount=1000"
            self._send("lakeFS: list the staging branches", "GET", listing)
        self._send("Conductor: read the task", "GET", f"/tasks/{task['taskId']}")
        self._send("Conductor: read the workflow", "GET", f"/workflow/{task['workflowInstanceId']}?includeTasks=false")
        self._send("lakeFS: read the head", "GET", f"{self._in}/refs/{BRANCH}/commits?amount=1&limit=true")
        merge = {"message": "bench", "squash_merge": True}
        merged = self._send("lakeFS: merge", "POST", f"{self._in}/refs/{staging}/merge/{BRANCH}", merge)["reference"]
        self._send("lakeFS: read the merge commit", "GET", f"{self._in}/commits/{merged}")
        self._send("lakeFS: delete the staging branch", "DELETE", f"{self._in}/branches/{staging}")
        report = {"workflowInstanceId": task["workflowInstanceId"], "taskId": task["taskId"], "status": "COMPLETED"}
        self._send("Conductor: report", "POST", "/tasks", report)
        self._head = str(merged)

    def _send(self, name: str, method: str, path: str, body: object | None = None) -> Any:
        client = self._lake if name.startswith("lakeFS") else self._conductor
        began = time.monotonic()
        reply = client.send(method, path, body)
        self.times.setdefault(name, []).append(1000 * (time.monotonic() - began))
        return reply


@contextmanager
def _repository(stack: Endpoints) -> Generator[tuple[Client, str]]:
    keys = base64.b64encode(f"{stack.access_key_id}:{stack.secret_access_key}".encode()).decode()
    lake = Client(f"{stack.lakefs_url}/api/v1", {"Authorization": f"Basic {keys}"})
    name = f"bench-{uuid.uuid4().hex[:10]}"
    lake.send("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
    try:
        yield lake, name
    finally:
        lake.send("DELETE", f"/repositories/{name}?force=true")
        lake.close()
