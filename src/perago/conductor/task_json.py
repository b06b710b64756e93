"""Converts between Conductor's JSON and values of the model. Pure functions."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from perago.conductor.port import Polled, Snapshot
from perago.errors import ConductorRejected, TaskStatus
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId, WorkflowRun

Json = Mapping[str, Any]

HUMAN = "HUMAN"
"""Conductor's type of a task that a person does."""


def segment(text: str) -> str:
    """Quoted as one segment of a path."""
    return quote(text, safe="")


def an_object(answer: Any) -> Json:
    """The answer if it is a JSON object; `ConductorRejected` otherwise, such as for a proxy's page."""
    if not isinstance(answer, dict):
        raise ConductorRejected(f"Conductor answered with {type(answer).__name__} where an object was expected")
    return cast("Json", answer)


def polled(task: Json) -> Polled:
    definition: Json = task.get("taskDefinition") or {}
    return Polled(
        attempt=attempt(task),
        input=task.get("inputData") or {},
        response_timeout_seconds=float(task.get("responseTimeoutSeconds") or 0),
        timeout_seconds=float(definition.get("timeoutSeconds") or 0),
        input_is_elsewhere=bool(task.get("externalInputPayloadStoragePath")),
        workflow_name=str(task.get("workflowType") or ""),
    )


def attempt(task: Json) -> Attempt:
    try:
        return Attempt(
            workflow_id=WorkflowId(task["workflowInstanceId"]),
            task_id=TaskId(task["taskId"]),
            retry_count=int(task.get("retryCount", 0)),
            reference_name=str(task["referenceTaskName"]),
            seq=int(task.get("seq", 0)),
            iteration=int(task.get("iteration", 0)),
            task_type=TaskType(task.get("taskDefName") or task["taskType"]),
            worker_id=WorkerId(task.get("workerId") or ""),
            start_time=_start_time(task),
            poll_count=int(task.get("pollCount", 0)),
        )
    except KeyError as error:
        raise ConductorRejected(
            f"Conductor handed out a task without {error.args[0]}; is the address that of its API?"
        ) from error


def _start_time(task: Json) -> int:
    """Of a human step, which is not polled, a rerun clears the start time and renews the time at which it was scheduled."""
    started = int(task.get("startTime") or 0)
    return started or (int(task.get("scheduledTime") or 0) if task.get("taskType") == HUMAN else 0)


def snapshot(task: Json, workflow: Json | None = None) -> Snapshot:
    """`workflow` is None where only the task was read."""
    run = workflow_run(workflow or {})
    return Snapshot(
        workflow_id=WorkflowId(str(task.get("workflowInstanceId", ""))),
        task_id=TaskId(str(task.get("taskId", ""))),
        retry_count=int(task.get("retryCount", 0)),
        status=str(task.get("status", "")),
        worker_id=WorkerId(task["workerId"]) if task.get("workerId") else None,
        start_time=_start_time(task),
        poll_count=int(task.get("pollCount", 0)),
        workflow_status=run.status,
        output=task.get("outputData") or {},
        output_is_elsewhere=bool(task.get("externalOutputPayloadStoragePath")),
        workflow_created=run.created,
        workflow_ended=run.ended,
        workflow_name=str(task.get("workflowType") or ""),
    )


def workflow_run(workflow: Json) -> WorkflowRun:
    return WorkflowRun(str(workflow.get("status", "")), int(workflow.get("createTime") or 0), int(workflow.get("endTime") or 0))


def update(of: Attempt, status: str) -> dict[str, Any]:
    """The fields of every update; by task id, because a reference name would address the attempt that is pending then."""
    return {"workflowInstanceId": of.workflow_id, "taskId": of.task_id, "workerId": of.worker_id, "status": status}


def report(of: Attempt, outcome: Outcome, *, now: float) -> dict[str, Any]:
    """Output only with COMPLETED: a later retry or loop iteration would read the output of a failed attempt."""
    body = update(of, outcome.status.value)
    if outcome.status is TaskStatus.COMPLETED:
        body["outputData"] = dict(outcome.output or {})
    elif outcome.reason is not None:
        body["reasonForIncompletion"] = outcome.reason_with_code
    if outcome.task_log:
        # One entry for all lines: the server keeps only the first ten entries.
        body["logs"] = [{"log": "\n".join(outcome.task_log), "taskId": of.task_id, "createdTime": int(now * 1000)}]
    return body
