"""Tasks of human steps: those that wait for a person, and one of them by its id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from perago.conductor import task_json
from perago.conductor.workflows import WorkflowClient
from perago.declare import human_form
from perago.errors import SetupError, StaleAttemptError, TaskInputError
from perago.model import Attempt, CommitId, TaskId, WorkflowId
from perago.protocol.statuses import ACTIVE_WORKFLOW, TaskState

Json = Mapping[str, Any]

SHORTEST = 8
"""So many characters of an id are needed to name a task."""
_WHOLE = 36
_SEARCHED = 500
_MOST_CALLS = 50


@dataclass(frozen=True, slots=True)
class HumanTask:
    """A task of a human step as Conductor has it."""

    attempt: Attempt
    pipeline: str
    since: float
    """Unix seconds."""
    status: str
    input: Json
    output: Json
    reason: str = ""

    @property
    def id(self) -> TaskId:
        return self.attempt.task_id

    @property
    def question(self) -> Json:
        return cast("Json", self.input.get(human_form.QUESTION) or {})

    def read(self) -> human_form.HumanInput:
        """`TaskInputError` for a task that is no human step of this version of Perago."""
        return human_form.read(self.input)

    def require_waiting(self, client: WorkflowClient) -> None:
        """`StaleAttemptError` that tells how the task ended, if it has."""
        if self.status != TaskState.IN_PROGRESS:
            raise StaleAttemptError(f"task {self.id} is over: it is {self.status}{self._ending()}")
        run = client.read(self.attempt.workflow_id, tasks=False) or {}
        if run.get("status") not in ACTIVE_WORKFLOW:
            raise StaleAttemptError(f"task {self.id} is over: its run {self.attempt.workflow_id} is {run.get('status')}")

    def _ending(self) -> str:
        by = f" by {self.output['by']}" if self.output.get("by") else ""
        workspace = self.output.get(human_form.WORKSPACE)
        commit = f" with commit {cast('Json', workspace).get('ref')}" if isinstance(workspace, Mapping) else ""
        return f"{by}{commit}" or (f" ({self.reason})" if self.reason else "")


def waiting(client: WorkflowClient, amount: int) -> Sequence[HumanTask]:
    """The human steps that wait for a person, the newest first. HUMAN tasks of other products are left out."""
    return [_task(one) for one in client.human_tasks(amount) if human_form.is_form(one.get("inputData"))]


def find(client: WorkflowClient, text: str) -> HumanTask:
    """The task with this id, or the only waiting one whose id begins so; `SetupError` otherwise."""
    task_id = TaskId(text) if len(text) >= _WHOLE else _complete(client, text)
    found = client.task(task_id)
    if found is None:
        raise SetupError(f"Conductor at {client.url} does not know task {text}; perago tasks lists those that wait")
    task = _task(found)
    if not human_form.is_form(task.input):
        raise SetupError(
            f"task {task_id} ({found.get('taskType')}) is no human step of Perago; perago tasks lists those that wait"
        )
    try:
        task.read()
    except TaskInputError as error:
        raise SetupError(f"task {task_id} cannot be done with this version of Perago: {error}") from error
    return task


def beginning(client: WorkflowClient, task: HumanTask) -> CommitId | None:
    """The commit that the run began with, or the run that called it, if it was called. None without a workspace."""
    workflow_id, ref = task.attempt.workflow_id, None
    for _ in range(_MOST_CALLS):
        run = client.read(workflow_id, tasks=False) or {}
        given = cast("Json", run.get("input") or {}).get(human_form.WORKSPACE)
        ref = cast("Json", given).get("ref") if isinstance(given, Mapping) else ref
        if not run.get("parentWorkflowId"):
            break
        workflow_id = WorkflowId(str(run["parentWorkflowId"]))
    return CommitId(ref) if isinstance(ref, str) else None


def _complete(client: WorkflowClient, text: str) -> TaskId:
    if len(text) < SHORTEST:
        raise SetupError(f"{text} is too short for the beginning of a task's id: give at least {SHORTEST} characters")
    found = sorted(one.id for one in waiting(client, _SEARCHED) if one.id.startswith(text))
    if not found:
        raise SetupError(f"no task that waits for a person begins with {text}; perago tasks lists them")
    if len(found) > 1:
        raise SetupError(f"{text} is ambiguous: {', '.join(found)}")
    return found[0]


def _task(found: Json) -> HumanTask:
    return HumanTask(
        task_json.attempt(found),
        str(found.get("workflowType") or ""),
        int(found.get("scheduledTime") or 0) / 1000,
        str(found.get("status") or ""),
        found.get("inputData") or {},
        found.get("outputData") or {},
        str(found.get("reasonForIncompletion") or ""),
    )
