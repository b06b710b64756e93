"""Conductor for the conformance suite: the in-memory one and a real server, with the operations that the port does not have."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import urllib3

from perago.conductor import port
from perago.conductor.client import ConductorClient
from perago.in_memory import conductor as fake
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import TaskId, TaskType, WorkerId, WorkflowId


class ConductorSite(Protocol):
    """A Conductor under test with the operations of an operator."""

    conductor: port.Conductor

    def task_type(self, **definition: Any) -> TaskType: ...
    def start(self, *types: TaskType, lanes: int = 1) -> WorkflowId:
        """The first `lanes` steps are the lanes of a fork, the others follow one by one."""
        ...

    def pause(self, workflow_id: WorkflowId) -> None: ...
    def resume(self, workflow_id: WorkflowId) -> None: ...
    def restart(self, workflow_id: WorkflowId) -> None: ...
    def terminate(self, workflow_id: WorkflowId) -> None: ...
    def rerun(self, workflow_id: WorkflowId, task_id: TaskId) -> None: ...
    def workflow_status(self, workflow_id: WorkflowId) -> str: ...
    def reason(self, task_id: TaskId) -> str | None: ...
    def logs(self, task_id: TaskId) -> list[str]: ...


def definition(**changes: Any) -> dict[str, Any]:
    name = f"conformance_{uuid.uuid4().hex[:12]}"
    base = {"name": name, "ownerEmail": "tests@example.com", "retryCount": 2, "retryDelaySeconds": 0}
    return base | {"responseTimeoutSeconds": 60, "timeoutSeconds": 0, "timeoutPolicy": "RETRY"} | changes


def nonce() -> WorkerId:
    return WorkerId(f"tests0001-{uuid.uuid4().hex[:12]}")


def take(conductor: port.Conductor, task_type: TaskType, patience: float = 20.0) -> port.Polled:
    """Poll until there is one."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        polled = conductor.poll(task_type, nonce(), wait_seconds=1.0)
        if polled is not None:
            return polled
    raise AssertionError(f"no {task_type} was handed out within {patience} s")


class FakeConductorSite:
    def __init__(self) -> None:
        self.server = fake.FakeConductor()
        self.conductor: port.Conductor = self.server

    def task_type(self, **changes: Any) -> TaskType:
        made = definition(**changes)
        self.server.put_task_definition(made)
        return TaskType(made["name"])

    def start(self, *types: TaskType, lanes: int = 1) -> WorkflowId:
        steps = [WorkflowStep(name, f"step{number}", {"params": {"n": number}}) for number, name in enumerate(types)]
        return self.server.start(steps, lanes=lanes)

    def pause(self, workflow_id: WorkflowId) -> None:
        self.server.pause(workflow_id)

    def resume(self, workflow_id: WorkflowId) -> None:
        self.server.resume(workflow_id)

    def restart(self, workflow_id: WorkflowId) -> None:
        self.server.restart(workflow_id)

    def terminate(self, workflow_id: WorkflowId) -> None:
        self.server.terminate(workflow_id)

    def rerun(self, workflow_id: WorkflowId, task_id: TaskId) -> None:
        self.server.rerun(workflow_id, task_id)

    def workflow_status(self, workflow_id: WorkflowId) -> str:
        return self.server.workflow_status(workflow_id)

    def reason(self, task_id: TaskId) -> str | None:
        return self.server.tasks[task_id].reason

    def logs(self, task_id: TaskId) -> list[str]:
        return self.server.logs.get(task_id, [])


class RealConductorSite:
    """Uses HTTP directly, so that the client under test does not verify itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = ConductorClient(url, timeout=20.0)
        self.conductor: port.Conductor = self.client
        self._pool = urllib3.PoolManager(retries=False)
        self._started: list[WorkflowId] = []

    def close(self) -> None:
        for workflow_id in self._started:
            if self.workflow_status(workflow_id) in {"RUNNING", "PAUSED"}:
                self.terminate(workflow_id)
        self.client.close()
        self._pool.clear()

    def remove(self, workflow_id: WorkflowId) -> None:
        """Remove the workflow and its tasks from Conductor."""
        self.call("DELETE", f"/workflow/{workflow_id}/remove?archiveWorkflow=false")
        self._started.remove(workflow_id)

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        answer = self._pool.request(method, self.url + path, body=data, headers=headers, timeout=30.0)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data!r}"
        text = answer.data.decode()
        return json.loads(text) if text[:1] in {"{", "["} else text

    def task_type(self, **changes: Any) -> TaskType:
        made = definition(**changes)
        self.call("POST", "/metadata/taskdefs", [made])
        return TaskType(made["name"])

    def start(self, *types: TaskType, lanes: int = 1) -> WorkflowId:
        steps = [
            {"name": name, "taskReferenceName": f"step{number}", "type": "SIMPLE", "inputParameters": {"params": {"n": number}}}
            for number, name in enumerate(types)
        ]
        return self.start_workflow(steps if lanes == 1 else [*_fork(steps[:lanes]), *steps[lanes:]])

    def pause(self, workflow_id: WorkflowId) -> None:
        self.call("PUT", f"/workflow/{workflow_id}/pause")

    def resume(self, workflow_id: WorkflowId) -> None:
        self.call("PUT", f"/workflow/{workflow_id}/resume")

    def restart(self, workflow_id: WorkflowId) -> None:
        self.call("POST", f"/workflow/{workflow_id}/restart")

    def start_workflow(self, tasks: Sequence[Mapping[str, Any]], given: Mapping[str, Any] | None = None) -> WorkflowId:
        workflow = {
            "name": f"conformance_{uuid.uuid4().hex[:12]}",
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "tests@example.com",
            "tasks": tasks,
            "timeoutSeconds": 0,
            "timeoutPolicy": "ALERT_ONLY",
        }
        body = {"name": workflow["name"], "version": 1, "workflowDef": workflow, "input": given or {}}
        self._started.append(WorkflowId(self.call("POST", "/workflow", body)))
        return self._started[-1]

    def terminate(self, workflow_id: WorkflowId) -> None:
        self.call("DELETE", f"/workflow/{workflow_id}?reason=test")

    def rerun(self, workflow_id: WorkflowId, task_id: TaskId) -> None:
        self.call("POST", f"/workflow/{workflow_id}/rerun", {"reRunFromWorkflowId": workflow_id, "reRunFromTaskId": task_id})

    def workflow_status(self, workflow_id: WorkflowId) -> str:
        return str(self.call("GET", f"/workflow/{workflow_id}?includeTasks=false")["status"])

    def reason(self, task_id: TaskId) -> str | None:
        return self.call("GET", f"/tasks/{task_id}").get("reasonForIncompletion")

    def logs(self, task_id: TaskId) -> list[str]:
        return [entry["log"] for entry in self.call("GET", f"/tasks/{task_id}/log")]


def _fork(lanes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last = [lane["taskReferenceName"] for lane in lanes]
    return [
        {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[lane] for lane in lanes]},
        {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": last},
    ]
