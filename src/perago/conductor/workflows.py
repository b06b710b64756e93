"""Runs of workflows in Conductor: start, read, search, terminate, pause, resume, retry, and which task types are polled.

Reads are tried again, writes are sent once. A start whose reply is lost may have happened: the run is then looked up by its
correlation id, which is random.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from perago.conductor import task_json
from perago.conductor.api import ConductorApi
from perago.errors import ConductorError, ConductorNotFound, ConductorRejected, ConductorUnavailable, ConductorUnknown
from perago.model import TaskId, TaskType, WorkflowId
from perago.protocol.statuses import TaskState

Json = Mapping[str, Any]

LOOK_UP_SECONDS = 30.0
"""How long a run is looked up whose start had no reply. Longer than Conductor needs to carry out a request that it received."""
_LOOK_UP_PAUSE = 1.0
_CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as the search index lists it. Times are Unix seconds, 0 where Conductor tells none."""

    id: WorkflowId
    name: str
    version: int
    status: str
    started: float
    ended: float
    reason: str = ""
    parent: str = ""
    """The run that called it; empty for a run that was submitted."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run to be started."""

    name: str
    version: int
    input: Json
    correlation_id: str


def correlation_id() -> str:
    return f"perago-{uuid.uuid4().hex}"


class WorkflowClient:
    """One server; safe to share between threads."""

    def __init__(self, url: str, *, timeout: float, auth_key: str | None = None, auth_secret: str | None = None) -> None:
        auth = (auth_key, auth_secret) if auth_key and auth_secret else None
        self.api = ConductorApi(url, timeout=timeout, connections=_CONNECTIONS, auth=auth)

    @property
    def url(self) -> str:
        return self.api.url

    def close(self) -> None:
        self.api.close()

    # reads

    def read(self, workflow_id: WorkflowId, *, tasks: bool = True) -> Json | None:
        """The run, with its tasks if asked for; None where Conductor does not know it."""
        query = {"includeTasks": "true" if tasks else "false"}
        try:
            return task_json.an_object(self.api.read(f"/workflow/{task_json.segment(workflow_id)}", query=query))
        except ConductorNotFound:
            return None

    def task(self, task_id: TaskId) -> Json | None:
        """One task of any run, with its input; None where Conductor does not know it."""
        try:
            return task_json.an_object(self.api.read(f"/tasks/{task_json.segment(task_id)}"))
        except ConductorNotFound:
            return None

    def search(self, amount: int, *, name: str = "", status: str = "", text: str = "*", start: int = 0) -> Sequence[RunSummary]:
        """The newest runs that nothing called, by the search index, which may be a second behind. `text` is a word or `word*`."""
        wanted = {"workflowType": name, "status": status}
        query = {
            "query": " AND ".join(f"{field}='{_quotable(value)}'" for field, value in wanted.items() if value),
            "freeText": text,
            "sort": "startTime:DESC",
            "start": str(start),
            "size": str(amount),
            "topLevelOnly": "true",
        }
        found = cast("list[Json]", task_json.an_object(self.api.read("/workflow/search", query=query)).get("results") or [])
        runs = [_summary(one) for one in found]
        # Servers before `topLevelOnly` ignore it.
        return [run for run in runs if not run.parent]

    def correlated(self, name: str, correlation: str) -> WorkflowId | None:
        """The run of this name and correlation id."""
        path = f"/workflow/{task_json.segment(name)}/correlated/{task_json.segment(correlation)}"
        found = self.api.read(path, query={"includeClosed": "true", "includeTasks": "false"})
        runs = cast("list[Json]", found) if isinstance(found, list) else []
        return next((WorkflowId(str(run["workflowId"])) for run in runs), None)

    def last_poll(self, task_type: TaskType) -> float | None:
        """When a worker last asked for a task of this type, in Unix seconds; None if none ever did."""
        found = self.api.read("/tasks/queue/polldata", query={"taskType": task_type})
        polls = cast("list[Json]", found) if isinstance(found, list) else []
        return max((float(poll.get("lastPollTime") or 0) / 1000 for poll in polls), default=None)

    def task_log(self, task_id: TaskId) -> Sequence[str]:
        """The entries of the task's log; each may have several lines."""
        try:
            found = self.api.read(f"/tasks/{task_json.segment(task_id)}/log")
        except ConductorNotFound:
            return []
        return [str(entry.get("log", "")) for entry in cast("list[Json]", found or [])]

    def human_tasks(self, amount: int) -> Sequence[Json]:
        """The newest tasks that wait for a person, by the search index, which may be a second behind."""
        query = {
            "query": f"taskType='{task_json.HUMAN}' AND status='{TaskState.IN_PROGRESS}'",
            "freeText": "*",
            "sort": "startTime:DESC",
            "start": "0",
            "size": str(amount),
        }
        found = cast("list[Json]", task_json.an_object(self.api.read("/tasks/search-v2", query=query)).get("results") or [])
        return [one for one in found if one.get("status") == TaskState.IN_PROGRESS]

    # writes

    def start(self, wanted: Start) -> WorkflowId:
        """The id of the new run. `ConductorUnknown` if neither the reply nor a look-up told whether it was started."""
        body = {
            "name": wanted.name,
            "version": wanted.version,
            "correlationId": wanted.correlation_id,
            "input": dict(wanted.input),
        }
        try:
            return WorkflowId(str(self.api.write("POST", "/workflow", body=body)))
        except (ConductorUnknown, ConductorUnavailable) as error:
            found = self._started_after_all(wanted, LOOK_UP_SECONDS if isinstance(error, ConductorUnknown) else 0)
            if found is not None:
                return found
            if isinstance(error, ConductorUnavailable):
                raise
            raise ConductorUnknown(
                f"whether a run of {wanted.name} was started is unknown: Conductor's reply was lost, and no run with "
                f"correlation id {wanted.correlation_id} was found within {LOOK_UP_SECONDS:.0f} s; look at perago runs "
                "before you submit again"
            ) from error

    def _started_after_all(self, wanted: Start, patience: float) -> WorkflowId | None:
        """Asks until the run is there or the time is up: the request may still be on its way."""
        deadline = time.monotonic() + patience
        while True:
            try:
                found = self.correlated(wanted.name, wanted.correlation_id)
            except ConductorError:
                found = None
            if found is not None or time.monotonic() >= deadline:
                return found
            time.sleep(_LOOK_UP_PAUSE)

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        self.api.write("DELETE", f"/workflow/{task_json.segment(workflow_id)}", query={"reason": reason})

    def pause(self, workflow_id: WorkflowId) -> None:
        self.api.write("PUT", f"/workflow/{task_json.segment(workflow_id)}/pause")

    def resume(self, workflow_id: WorkflowId) -> None:
        self.api.write("PUT", f"/workflow/{task_json.segment(workflow_id)}/resume")

    def retry(self, workflow_id: WorkflowId) -> None:
        """The last task that failed is scheduled again; in a called pipeline, inside that."""
        path = f"/workflow/{task_json.segment(workflow_id)}/retry"
        self.api.write("POST", path, query={"resumeSubworkflowTasks": "true"})


def _quotable(value: str) -> str:
    if "'" in value:
        raise ConductorRejected(f"{value} contains a quote, which Conductor's search does not take")
    return value


def _summary(found: Json) -> RunSummary:
    return RunSummary(
        WorkflowId(str(found["workflowId"])),
        str(found.get("workflowType") or ""),
        int(found.get("version") or 0),
        str(found.get("status") or ""),
        _seconds(found.get("startTime")),
        _seconds(found.get("endTime")),
        str(found.get("reasonForIncompletion") or ""),
        str(found.get("parentWorkflowId") or ""),
    )


def _seconds(moment: object) -> float:
    """The search index has ISO texts or milliseconds, depending on the server."""
    if isinstance(moment, int | float):
        return moment / 1000
    try:
        return datetime.fromisoformat(str(moment)).timestamp() if moment else 0.0
    except ValueError:
        return 0.0
