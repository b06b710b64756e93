"""A target branch on a lake, in memory or real, a Conductor in memory, and executions of attempts that write there."""

import base64
import json
import secrets
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from greenlet import getcurrent
from tests.support import memory_lake
from tests.support.recording import RecordingTap, RecordingTask

from perago import events
from perago.attempt import port, transaction
from perago.attempt.execution import Execution
from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.errors import LakeForbidden
from perago.http.request import HttpTimeouts
from perago.in_memory.conductor_rows import WorkflowStep
from perago.in_memory.gate import RequestStep
from perago.in_memory.lake import MAIN, MemoryLake
from perago.lake import client
from perago.model import Attempt, BranchName, Commit, CommitId, ExecutionId, Outcome, Repository, WorkspaceRef
from perago.operate.protocol_check.dict_task import upload, workspace_input
from perago.operate.protocol_check.scene import TASK, Scene
from perago.protocol import commit_labels, staging_names

Files = dict[str, bytes]
Workspaces = Callable[[WorkspaceRef], port.AttemptWorkspace]


def once(action: Callable[[], object]) -> Callable[[], None]:
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


class Slow:
    """A gate that stops the first relocation or merge after it has resolved its source, until it is released."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._main = getcurrent()
        self.is_stopped = False

    def __call__(self, verb: str, step: RequestStep) -> None:
        if (verb, step) == (self._verb, RequestStep.BETWEEN) and not self.is_stopped:
            self.is_stopped = True
            self._main.switch()


@dataclass
class AttemptScene(Scene):
    """A scene that records requests and events, and whose branch can be made dirty or protected."""

    calls: Counter[str] = field(default_factory=Counter[str])
    protect: Callable[[], None] = lambda: None
    heard: list[events.Event] = field(default_factory=list[events.Event])

    def __post_init__(self) -> None:
        self.a = self.publish({"in/x": b"1", "other": b"outside"}).id

    @property
    def tap(self) -> RecordingTap:
        return RecordingTap(self.lake)

    def content(self, ref: CommitId) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory(prefix="perago-testing-") as directory:
            for number, info in enumerate(self.lake.objects(self.repository, ref, "").objects):
                self.lake.read(self.repository, ref, info, Path(directory) / str(number))
                found[info.path] = (Path(directory) / str(number)).read_bytes()
        return found

    def staging_branches(self) -> list[BranchName]:
        return [found.name for found in self.lake.branches(self.repository, staging_names.PREFIX)]

    def start(self, ref: CommitId | None = None, steps: int = 1) -> Polled:
        """A workflow whose later steps take what the one before them left; its first attempt."""
        first = WorkflowStep(TASK, "s0", workspace_input(replace(self.target(), ref=ref or self.a)))
        self.conductor.start([first, *(WorkflowStep(TASK, f"s{number}", _input_from(number - 1)) for number in range(1, steps))])
        return self.poll()

    def execution(self, attempt: Attempt, task: port.Task, lake: Any = None, workspaces: Workspaces | None = None) -> Execution:
        made = replace(super().execution(attempt, task, lake), emit=self.heard.append)
        return made if workspaces is None else replace(made, workspaces=workspaces)

    def run(self, polled: Polled, task: port.Task, lake: Any = None, workspaces: Workspaces | None = None) -> Outcome:
        return transaction.run(self.execution(polled.attempt, task, lake, workspaces), polled.input)

    def dirty(self) -> None:
        upload(self.lake, self.repository, MAIN, "dirt", b"uncommitted")

    def failures(self) -> list[str]:
        return [event.detail for event in self.heard if isinstance(event, events.Done) and event.error]

    def removed(self) -> list[events.Removed]:
        return [event for event in self.heard if isinstance(event, events.Removed)]

    def revoked(self) -> list[events.Revoked]:
        return [event for event in self.heard if isinstance(event, events.Revoked)]

    def set_task(self, polled: Polled, **fields: Any) -> None:
        """Set fields of the task in Conductor."""
        row = self.conductor.tasks[polled.attempt.task_id]
        self.conductor.tasks[polled.attempt.task_id] = replace(row, **fields)

    def publish_as(self, polled: Polled, files: dict[str, bytes]) -> Commit:
        """A commit with the labels of this attempt, whatever Conductor says of it."""
        for path, data in files.items():
            upload(self.lake, self.repository, self.branch, path, data)
        created = self.conductor.snapshot(polled.attempt.workflow_id, polled.attempt.task_id).workflow_created
        metadata = commit_labels.write(polled.attempt, ExecutionId(secrets.token_hex(8)), self.a, created)
        return self.lake.commit_branch(self.repository, self.branch, "publish", metadata)

    def announce(self, polled: Polled) -> BranchName:
        """Create a staging branch of this attempt, as if it were about to publish."""
        name = staging_names.staging_branch(polled.attempt, staging_names.execution_id(0, secrets.token_bytes(8)), self.branch)
        self.lake.create_branch(self.repository, name, self.a)
        return name

    def output_naming(self, ref: str) -> dict[str, Any]:
        shown = {"repository": self.repository, "branch": self.branch, "ref_type": "commit", "ref": ref}
        return {"workspace": shown, "result": {}}


def _input_from(number: int) -> Callable[[Any], Any]:
    return lambda outputs: {**outputs[f"s{number}"], "params": {}}


def writing(**files: bytes) -> RecordingTask:
    """A task that writes these files; a double underscore stands for a slash."""

    def body(workspace: Files) -> dict[str, int]:
        workspace.update({name.replace("__", "/"): data for name, data in files.items()})
        return {"files": len(files)}

    return RecordingTask(body)


def memory_scene() -> AttemptScene:
    lake, repository = MemoryLake(), Repository("repo")
    lake.create_repository(repository)
    return AttemptScene(lake, repository, calls=lake.calls, protect=lambda: memory_lake.protect(lake, repository, "main"))


class LakeFSAdmin:
    """The lakeFS of the stack, for what the port does not cover: repositories, tags and protection rules."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self.calls: Counter[str] = Counter()
        self.lake = client.LakeFS(
            endpoints.lakefs_url,
            endpoints.access_key_id,
            endpoints.secret_access_key,
            timeouts=HttpTimeouts(connect=5, request=30),
            on_request=lambda record: self.calls.update([record.verb]),
        )

    def request(self, method: str, path: str, body: object = None) -> None:
        credentials = f"{self._endpoints.access_key_id}:{self._endpoints.secret_access_key}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(credentials).decode()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._endpoints.lakefs_url}/api/v1{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30):
            pass

    def scene(self, name: str) -> AttemptScene:
        repository = Repository(name)
        self.request("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
        return AttemptScene(self.lake, repository, calls=self.calls, protect=lambda: self._protect(repository))

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
