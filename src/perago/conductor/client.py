"""The `Conductor` port on a Conductor server. Reads are tried again, writes are sent once."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from perago.conductor import task_json
from perago.conductor.api import ConductorApi
from perago.conductor.port import Polled, Snapshot
from perago.errors import ConductorNotFound, ConductorRejected, ConductorUnavailable, ConductorUnknown
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId, WorkflowRun
from perago.protocol.statuses import TaskState

LONGEST_POLL = 5.0
SEARCHED = "50"
"""How many tasks of a type are searched, the latest first: a lost one is among them unless many were started since."""
POLL_SLACK = 10.0
"""Seconds. A poll that times out may have taken a task that then runs on no worker, so its timeout is generous."""


class ConductorClient:
    """One server; safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        connections: int = 16,
        auth_key: str | None = None,
        auth_secret: str | None = None,
    ) -> None:
        auth = (auth_key, auth_secret) if auth_key and auth_secret else None
        self._api = ConductorApi(url, timeout=timeout, connections=connections, auth=auth)

    def __repr__(self) -> str:
        return f"ConductorClient({self._api.url!r})"

    def close(self) -> None:
        self._api.close()

    def check(self) -> None:
        """Raise an error unless the address answers as a Conductor server does and accepts the credentials."""
        try:
            found = self._api.read("/tasks/queue/polldata", query={"taskType": "perago.does.not.exist"})
        except ConductorNotFound as error:
            raise self._no_conductor() from error
        except ConductorUnavailable as error:
            raise ConductorUnavailable(f"{error}; is it running, and does CONDUCTOR_SERVER_URL name it?") from error
        if not isinstance(found, list):
            raise self._no_conductor()

    def _no_conductor(self) -> ConductorRejected:
        return ConductorRejected(
            f"{self._api.url} does not answer as Conductor does; CONDUCTOR_SERVER_URL is its API, such as http://host:8080/api"
        )

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        wait = min(max(wait_seconds, 0.0), LONGEST_POLL)
        query = {"count": "1", "timeout": str(int(wait * 1000)), "workerid": worker_id}
        tasks = self._api.write(
            "GET", f"/tasks/poll/batch/{task_json.segment(task_type)}", query=query, timeout=wait + POLL_SLACK
        )
        return _handed_out(task_type, tasks)

    def snapshot(self, workflow_id: WorkflowId, task_id: TaskId) -> Snapshot:
        """The task first: a workflow that ends between the two reads is then seen as ended."""
        task = self._object(f"/tasks/{task_json.segment(task_id)}")
        workflow = self._object(f"/workflow/{task_json.segment(workflow_id)}", {"includeTasks": "false"})
        return task_json.snapshot(task, workflow)

    def workflow_status(self, workflow_id: WorkflowId) -> str:
        return str(self._object(f"/workflow/{task_json.segment(workflow_id)}", {"includeTasks": "false"}).get("status"))

    def workflow_run(self, workflow_id: WorkflowId) -> WorkflowRun:
        return task_json.workflow_run(self._object(f"/workflow/{task_json.segment(workflow_id)}", {"includeTasks": "false"}))

    def task(self, task_id: TaskId) -> Snapshot:
        return task_json.snapshot(self._object(f"/tasks/{task_json.segment(task_id)}"))

    def extend_lease(self, attempt: Attempt) -> None:
        self._api.write("POST", "/tasks", body=task_json.update(attempt, TaskState.IN_PROGRESS) | {"extendLease": True})

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        self._api.write("POST", "/tasks", body=task_json.report(attempt, outcome, now=time.time()), timeout=timeout)

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        body = task_json.report(attempt, outcome, now=time.time()) | {"workerId": worker_id}
        task = self._api.write("POST", "/tasks/update-v2", body=body, timeout=timeout)
        return _handed_out(attempt.task_type, [task] if task else [])

    def hand_back(self, attempt: Attempt) -> None:
        self._api.write("POST", "/tasks", body=task_json.update(attempt, TaskState.IN_PROGRESS) | {"callbackAfterSeconds": 0})

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        query = {
            "query": f"taskType='{task_type}' AND status='IN_PROGRESS'",
            "freeText": "*",
            "sort": "startTime:DESC",
            "start": "0",
            "size": SEARCHED,
        }
        found = cast("list[Mapping[str, Any]]", self._object("/tasks/search-v2", query).get("results") or [])
        return [task_json.attempt(task) for task in found if task.get("workerId") in worker_ids]

    def decide(self, workflow_id: WorkflowId) -> None:
        self._api.write("PUT", f"/workflow/decide/{task_json.segment(workflow_id)}")

    def log(self, task_id: TaskId, lines: Sequence[str]) -> None:
        if lines:
            self._api.write("POST", f"/tasks/{task_json.segment(task_id)}/log", text="\n".join(lines))

    def task_definition(self, task_type: TaskType) -> Mapping[str, Any] | None:
        try:
            return self._object(f"/metadata/taskdefs/{task_json.segment(task_type)}")
        except ConductorNotFound:
            return None

    def put_task_definition(self, definition: Mapping[str, Any]) -> None:
        """Posting a definition creates it and overwrites the one of that name."""
        self._api.write("POST", "/metadata/taskdefs", body=[dict(definition)])

    def workflow_definition(self, name: str) -> Mapping[str, Any] | None:
        """The latest version."""
        try:
            return self._object(f"/metadata/workflow/{task_json.segment(name)}")
        except ConductorNotFound:
            return None

    def create_workflow_definition(self, definition: Mapping[str, Any]) -> None:
        """Refused if the version exists."""
        self._api.write("POST", "/metadata/workflow", body=dict(definition))

    def _object(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        return task_json.an_object(self._api.read(path, query=query))


def _handed_out(task_type: TaskType, tasks: Any) -> Polled | None:
    try:
        return task_json.polled(task_json.an_object(tasks[0])) if tasks else None
    except (ConductorRejected, KeyError, TypeError) as error:
        # A proxy may have damaged the reply, and it may have held a task.
        raise ConductorUnknown(f"Conductor's answer to a poll for {task_type} cannot be read") from error
