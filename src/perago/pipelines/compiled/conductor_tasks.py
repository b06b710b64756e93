"""The JSON of Conductor's tasks that compiled pipelines are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration

Json = dict[str, Any]

FORK_TASK = "perago.fork"
JOIN_TASK = "perago.join"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Tasks in order, and the expression of the workspace after the last of them."""

    tasks: list[Json]
    workspace: str


def simple(name: str, ref: str, given: Json) -> Json:
    return {"name": name, "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": given}


def task_input(task: TaskDeclaration, workspace: str, params: Any) -> Json:
    return {"params": params} if task.kind is WorkspaceKind.NONE else {"workspace": workspace, "params": params}


def jq(ref: str, query: str, given: Mapping[str, Any]) -> Json:
    """Chooses between values without a worker. `output.result` is what the query gives."""
    return {
        "name": "jq",
        "taskReferenceName": ref,
        "type": "JSON_JQ_TRANSFORM",
        "inputParameters": {**given, "queryExpression": query},
    }


def inline(ref: str, expression: str, given: Mapping[str, Any]) -> Json:
    return {
        "name": "inline",
        "taskReferenceName": ref,
        "type": "INLINE",
        "inputParameters": {**given, "evaluatorType": "graaljs", "expression": expression},
    }


def join(ref: str, join_on: list[str]) -> Json:
    return {"name": "join", "taskReferenceName": ref, "type": "JOIN", "joinOn": join_on}
