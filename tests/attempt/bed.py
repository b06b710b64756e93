"""A target branch on a lake, in memory or real, a Conductor in memory, and executions of attempts that write there."""

import base64
import json
import secrets
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perago import events
from perago.attempt import port, spine
from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.errors import LakeForbidden
from perago.lake import client, http
from perago.lake.port import Lake
from perago.model import Attempt, BranchName, Commit, CommitId, Outcome, Repository, TaskType, WorkerId, WorkspaceRef
from perago.protocol import names
from perago.testing import attempts
from perago.testing.conductor import FakeConductor, Step
from perago.testing.lake import MemoryLake

MAIN = BranchName("main")
TASK = TaskType("step")
Files = dict[str, bytes]


class Tap:
    """A lake that tells of every call: `before` and `after` by verb may act or raise; `verbs` is what was called, in order."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.verbs: list[str] = []
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.at_call: Callable[[int], None] = lambda _number: None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.verbs.append(verb)
            self.at_call(len(self.verbs))
            self.before.get(verb, _nothing)()
            answer = getattr(self._lake, verb)(*args, **kwargs)
            answer = list(answer) if verb in {"branches", "uncommitted"} else answer
            self.after.get(verb, _nothing)()
            return answer

        return call


def _nothing() -> None:
    pass


def once(action: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def act() -> None:
        if not done:
            done.append(True)
            action()

    return act


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@dataclass
class Bed:
    """One repository whose branch `main` holds a first publication, the input commit `a`."""

    lake: Lake
    repository: Repository
    calls: Counter[str]
    protect: Callable[[], None]
    conductor: FakeConductor = field(default_factory=FakeConductor)
    heard: list[events.Event] = field(default_factory=list[events.Event])

    def __post_init__(self) -> None:
        self.a = self.publish({"in/x": b"1", "other": b"outside"}).id

    @property
    def tap(self) -> Tap:
        return Tap(self.lake)

    def target(self, ref: str | None = None) -> WorkspaceRef:
        return WorkspaceRef(self.repository, MAIN, CommitId(ref or self.a))

    def publish(self, files: Files, branch: BranchName = MAIN) -> Commit:
        """What somebody else did."""
        for path, data in files.items():
            attempts.upload(self.lake, self.repository, branch, path, data)
        return self.lake.commit_branch(self.repository, branch, "by somebody else", {})

    def dirty(self) -> None:
        attempts.upload(self.lake, self.repository, MAIN, "dirt", b"uncommitted")

    def head(self) -> Commit:
        return self.lake.head(self.repository, MAIN)

    def content(self, ref: CommitId) -> Files:
        found: Files = {}
        with tempfile.TemporaryDirectory() as directory:
            for number, info in enumerate(self.lake.objects(self.repository, ref, "").objects):
                self.lake.read(self.repository, ref, info, Path(directory) / str(number))
                found[info.path] = (Path(directory) / str(number)).read_bytes()
        return found

    def staging_branches(self) -> list[BranchName]:
        return [found.name for found in self.lake.branches(self.repository, names.PREFIX)]

    # Conductor

    def start(self, ref: CommitId | None = None, steps: int = 1) -> Polled:
        """A workflow whose later steps take what the one before them left."""
        first = attempts.workspace_input(self.target(ref))
        rest = [Step(TASK, f"s{n}", lambda outputs, n=n: {**outputs[f"s{n - 1}"], "params": {}}) for n in range(1, steps)]
        self.conductor.start([Step(TASK, "s0", first), *rest])
        return self.poll()

    def poll(self) -> Polled:
        polled = self.conductor.poll(TASK, WorkerId(f"w-{secrets.token_hex(4)}"), wait_seconds=0)
        assert polled is not None
        return polled

    def retry(self, polled: Polled) -> Polled:
        """Conductor gives the attempt up and hands out the next."""
        self.conductor.expire(polled.attempt.task_id)
        return self.poll()

    # attempts

    def execution(
        self, attempt: Attempt, task: port.Task, lake: Any = None, workspaces: Callable[[WorkspaceRef], Any] | None = None
    ) -> spine.Execution:
        used = lake or self.lake
        return spine.Execution(
            attempt,
            names.execution_id(0, secrets.token_bytes(8)),
            task,
            used,
            attempts.DirectFence(self.conductor),
            workspaces or (lambda ref: attempts.DictWorkspace(used, ref, "in/")),
            emit=self.heard.append,
        )

    def run(
        self, polled: Polled, task: port.Task, lake: Any = None, workspaces: Callable[[WorkspaceRef], Any] | None = None
    ) -> Outcome:
        return spine.run(self.execution(polled.attempt, task, lake, workspaces), polled.input)

    def report(self, polled: Polled, outcome: Outcome) -> bool:
        """As the worker does, and whether Conductor took it for this attempt's."""
        self.conductor.report(polled.attempt, outcome, timeout=1)
        row = self.conductor.tasks[polled.attempt.task_id]
        return row.status == outcome.status.value and row.worker_id == polled.attempt.worker_id

    def failures(self) -> list[str]:
        return [event.detail for event in self.heard if isinstance(event, events.Done) and event.error]


def writing(**files: bytes) -> attempts.DictTask:
    """A task that writes these files; a double underscore stands for a slash."""

    def body(workspace: Files) -> dict[str, int]:
        workspace.update({name.replace("__", "/"): data for name, data in files.items()})
        return {"files": len(files)}

    return attempts.DictTask(body)


def fresh(path: str) -> attempts.DictTask:
    """A task that writes something else each time."""

    def body(workspace: Files) -> None:
        workspace[path] = secrets.token_bytes(8)

    return attempts.DictTask(body)


def ref_of(outcome: Outcome) -> CommitId:
    assert outcome.output is not None, outcome.reason
    workspace: Any = outcome.output["workspace"]
    return CommitId(workspace["ref"])


def memory_bed() -> Bed:
    lake, repository = MemoryLake(), Repository("repo")
    lake.create_repository(repository)
    return Bed(lake, repository, lake.calls, lambda: lake.protect(repository, "main"))


class Server:
    """The lakeFS of the stack, for what the port does not cover: repositories, tags and protection rules."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self.calls: Counter[str] = Counter()
        self.lake = client.LakeFS(
            endpoints.lakefs_url,
            endpoints.access_key_id,
            endpoints.secret_access_key,
            timeouts=http.Timeouts(connect=5, request=30),
            on_request=lambda record: self.calls.update([record.verb]),
        )

    def request(self, method: str, path: str, body: object = None) -> None:
        credentials = f"{self._endpoints.access_key_id}:{self._endpoints.secret_access_key}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(credentials).decode()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._endpoints.lakefs_url}/api/v1{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30):
            pass

    def bed(self, name: str) -> Bed:
        repository = Repository(name)
        self.request("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
        return Bed(self.lake, repository, self.calls, lambda: self._protect(repository))

    def remove(self, name: str) -> None:
        self.request("DELETE", f"/repositories/{name}?force=true")

    def tag(self, repository: str, name: str, ref: str) -> None:
        self.request("POST", f"/repositories/{repository}/tags", {"id": name, "ref": ref})

    def _protect(self, repository: Repository) -> None:
        """lakeFS keeps rules in a cache for some seconds: wait until one that moves nothing is refused."""
        self.request("PUT", f"/repositories/{repository}/settings/branch_protection", [{"pattern": "main"}])
        probe = BranchName("probe")
        self.lake.create_branch(repository, probe, self.lake.head(repository, MAIN).id)
        try:
            _until_forbidden(lambda: self.lake.relocate(repository, MAIN, probe, timeout=10))
        finally:
            self.lake.delete_branch(repository, probe)

    def close(self) -> None:
        self.lake.close()


def _until_forbidden(relocate: Callable[[], None]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            relocate()
        except LakeForbidden:
            return
        time.sleep(0.2)
    raise AssertionError("the protection rule never took effect")
