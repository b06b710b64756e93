"""Compiles the nodes of a pipeline, one after another, with the workspace that each leaves for the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration
from perago.pipeline import graph
from perago.pipeline.expressions import Expressions

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Tasks in order, and the expression of the workspace after the last of them."""

    tasks: list[Json]
    workspace: str


def compile_nodes(nodes: Sequence[graph.Node], workspace: str, expressions: Expressions) -> Compiled:
    tasks: list[Json] = []
    for node in nodes:
        done = _compile(node, workspace, expressions)
        tasks += done.tasks
        workspace = done.workspace
    return Compiled(tasks, workspace)


def _compile(node: graph.Node, workspace: str, expressions: Expressions) -> Compiled:
    match node:
        case graph.Step():
            return _step(node, workspace, expressions)
        case _:
            raise NotImplementedError(type(node).__name__)


def _step(node: graph.Step, workspace: str, expressions: Expressions) -> Compiled:
    params = {name: expressions.value(value) for name, value in node.params.items()}
    task = simple(node.task.name, node.ref, task_input(node.task, workspace, params))
    if node.optional:
        task["optional"] = True
    return Compiled([task], f"${{{node.ref}.output.workspace}}" if node.writes else workspace)


def simple(name: str, ref: str, given: Json) -> Json:
    return {"name": name, "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": given}


def task_input(task: TaskDeclaration, workspace: str, params: Any) -> Json:
    return {"params": params} if task.kind is WorkspaceKind.NONE else {"workspace": workspace, "params": params}
