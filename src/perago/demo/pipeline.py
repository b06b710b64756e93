"""The shop pipeline as a Conductor workflow: start it, and read the state of its steps."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perago.errors import SetupError
from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch

STEPS = ("ingest", "clean", "features", "summarise", "gate", "report")
MODULES = tuple(f"examples.shop.{step}" for step in STEPS)
_WORKFLOW = "shop"
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StepAttempt:
    step: str
    task_id: str
    status: str
    seconds: float
    result: Mapping[str, Any]
    commit: str
    reason: str


@dataclass(frozen=True, slots=True)
class PipelineState:
    id: str
    status: str
    reason: str
    attempts: tuple[StepAttempt, ...]

    def of(self, step: str) -> list[StepAttempt]:
        return [attempt for attempt in self.attempts if attempt.step == step]


class JsonApi:
    """Requests with JSON bodies; a reply is JSON or text. `SetupError` for an error status or no answer."""

    def __init__(self, base: str, login: str | None = None) -> None:
        self._base = base
        self._headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}

    def call(self, method: str, path: str, body: object = None) -> Any:
        kind = "application/octet-stream" if isinstance(body, str) else "application/json"
        data = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        headers = self._headers | {"Content-Type": kind}
        try:
            reply = fetch(f"{self._base}{path}", timeout=_TIMEOUT_SECONDS, method=method, headers=headers, body=data.encode())
        except ConnectionBroken as error:
            raise SetupError(f"{method} {path} got no answer: {error}") from error
        if reply.status >= 400:  # noqa: PLR2004 - where HTTP errors begin
            raise SetupError(f"{method} {path} answered {reply.status}: {reply.body.decode(errors='replace')[:300]}")
        text = reply.body.decode()
        return json.loads(text) if text.startswith(("{", "[")) else text


def start(conductor: JsonApi, workspace: Mapping[str, str], scale: float) -> str:
    """Register and start the workflow; returns its id. Each step gets the workspace that the previous step published."""
    params: dict[str, dict[str, Any]] = {step: {} for step in STEPS}
    params["ingest"] = {"scale": scale}
    counts = {"orders": "ingest.output.result.orders", "clean": "clean.output.result.clean"}
    counts["quarantined"] = "clean.output.result.quarantined"
    params["gate"] = {name: f"${{{source}}}" for name, source in counts.items()}
    tasks: list[dict[str, Any]] = []
    given: object = "${workflow.input.workspace}"
    for step in STEPS:
        inputs = {"workspace": given, "params": params[step]}
        tasks.append({"name": f"shop.{step}", "taskReferenceName": step, "type": "SIMPLE", "inputParameters": inputs})
        given = f"${{{step}.output.workspace}}"
    definition = {"name": _WORKFLOW, "version": 1, "schemaVersion": 2, "ownerEmail": "data@example.com", "tasks": tasks}
    definition |= {"timeoutSeconds": 0, "timeoutPolicy": "ALERT_ONLY"}
    conductor.call("PUT", "/metadata/workflow", [definition])
    return str(conductor.call("POST", f"/workflow/{_WORKFLOW}", {"workspace": dict(workspace)}))


def read_workflow(conductor: JsonApi, workflow_id: str, now: float) -> PipelineState:
    found = conductor.call("GET", f"/workflow/{workflow_id}?includeTasks=true")
    tasks = sorted(found["tasks"], key=lambda task: int(task["seq"]))
    reason = str(found.get("reasonForIncompletion") or "")
    return PipelineState(workflow_id, str(found["status"]), reason, tuple(_attempt(task, now) for task in tasks))


def _attempt(task: Mapping[str, Any], now: float) -> StepAttempt:
    output: Mapping[str, Any] = task.get("outputData") or {}
    workspace: Mapping[str, Any] = output.get("workspace") or {}
    began, ended = int(task.get("startTime") or 0) / 1000, int(task.get("endTime") or 0) / 1000
    return StepAttempt(
        step=str(task["referenceTaskName"]),
        task_id=str(task["taskId"]),
        status=str(task["status"]),
        seconds=max(0.0, (ended or now) - began) if began else 0.0,
        result=output.get("result") or {},
        commit=str(workspace.get("ref", "")),
        reason=str(task.get("reasonForIncompletion") or ""),
    )
