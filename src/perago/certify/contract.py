"""What a worker under test has to do: the task type, its input and output, and the definition that Conductor gets."""

from collections.abc import Mapping
from typing import Any, cast

from perago.model import CommitId, WorkspaceRef

DEFAULT_TASK_TYPE = "publication_certification"
TASK_TYPE_VARIABLE = "CERTIFY_TASK_TYPE"
"""In the environment of the worker: the task type that it has to serve."""
FOLDER = "out/"
"""Each execution that changes something writes one object below it, with a name of its own."""
STEP = "certified"
"""The reference name of the task in every workflow."""
RETRIES = 5
SHORT_RESPONSE_SECONDS = 4
"""Where an attempt has to time out, so that Conductor hands out the retry."""
LONG_RESPONSE_SECONDS = 30
OWNER = "certify@example.com"

Json = Mapping[str, Any]


def task_definition(task_type: str, response_seconds: int = SHORT_RESPONSE_SECONDS) -> Json:
    """Conductor's TaskDef: an attempt that fails or times out is tried again at once."""
    return {
        "name": task_type,
        "ownerEmail": OWNER,
        "retryCount": RETRIES,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 0,
        "responseTimeoutSeconds": response_seconds,
        "timeoutSeconds": 0,
        "timeoutPolicy": "RETRY",
    }


def workflow_definition(name: str, task_type: str, given: Json, response_seconds: int) -> Json:
    """A workflow whose only step is the task. It carries the TaskDef, so that each run has the timeout that it needs."""
    step = {
        "name": task_type,
        "taskReferenceName": STEP,
        "type": "SIMPLE",
        "inputParameters": dict(given),
        "taskDefinition": task_definition(task_type, response_seconds),
    }
    return {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": OWNER,
        "tasks": [step],
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
    }


def task_input(workspace: WorkspaceRef, text: str) -> Json:
    """`text` is what the task writes; with an empty one it changes nothing."""
    return {"workspace": workspace.as_json(), "params": {"folder": FOLDER.rstrip("/"), "text": text}}


def accepted_commit(task: Json) -> CommitId | None:
    """The commit that the output of a task names; None where it names none."""
    output = cast("Json | None", task.get("outputData"))
    workspace: object = output.get("workspace") if output else None
    if not isinstance(workspace, Mapping):
        return None
    ref = cast("Json", workspace).get("ref")
    return CommitId(ref) if isinstance(ref, str) and ref else None
