"""What each task does with a workspace, and which steps the analysis of workspaces has to follow."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, cast

from perago.declare.task import TaskDeclaration
from perago.workflow_check import expressions
from perago.workflow_check.definition import CALLS, DYNAMIC_FORKS, JOINS, SCRIPTS, Task, Workflow
from perago.workflow_check.expressions import Expression

FORK = "perago.fork"
JOIN = "perago.join"
HUMAN = "HUMAN"
Tasks = Mapping[str, TaskDeclaration]


class Role(StrEnum):
    NONE = "none"
    """It has no workspace."""
    READER = "reader"
    WRITER = "writer"
    FORK = "fork"
    """The built-in task that gives each lane a branch of its own."""
    JOIN = "join"
    """The built-in task that publishes what the lanes wrote."""


def role(task: Task, tasks: Tasks) -> Role:
    """Of a task that a worker runs, of a human step, or of a sub-workflow that is not known."""
    if task.name in {FORK, JOIN} and task.is_worker_task:
        return Role.FORK if task.name == FORK else Role.JOIN
    declared = tasks.get(task_name(task) or "") if task.is_worker_task else None
    if declared is not None:
        return Role.NONE if declared.workspace is None else Role.WRITER if declared.publishes else Role.READER
    may_write = task.is_worker_task or task.type in CALLS or task.type == HUMAN
    if task.type == HUMAN and _is_read_only(task):
        return Role.READER
    return Role.WRITER if may_write and _is_workspace(task.inputs.get("workspace")) else Role.NONE


def _is_read_only(human: Task) -> bool:
    """Whether the form of a human step lets a person read the workspace only."""
    form = human.inputs.get("form")
    spec = cast("Mapping[str, Any]", form).get("workspace") if isinstance(form, Mapping) else None
    return isinstance(spec, Mapping) and cast("Mapping[str, Any]", spec).get("read_only") is True


def task_name(task: Task) -> str | None:
    """The TaskDef that it runs; None if only a run knows."""
    if not task.has_dynamic_name:
        return task.name
    parameter = task.raw.get("dynamicTaskNameParam")
    name = task.inputs.get(parameter) if isinstance(parameter, str) else None
    return name if isinstance(name, str) and "${" not in name else None


def _is_workspace(value: object) -> bool:
    """Other products have inputs of that name too, such as the name of a chat's workspace."""
    if isinstance(value, Mapping):
        return "branch" in value
    return expressions.whole(value) is not None


def uses_workspaces(workflow: Workflow, tasks: Tasks) -> bool:
    return any(
        "workspace" in task.inputs or task.type in DYNAMIC_FORKS or task.type in CALLS or role(task, tasks) is not Role.NONE
        for task in workflow.walk()
    )


def followed(workflow: Workflow) -> frozenset[str]:
    """The reference names of steps whose outputs may become a workspace."""
    by_ref = {task.ref: task for task in workflow.walk()}
    found = set[str]()
    todo = list(_first_expressions(workflow))
    variables = set[str]()
    while todo:
        one = todo.pop()
        if one.variable is not None and one.variable not in variables:
            variables.add(one.variable)
            sets = (task.inputs.get(one.variable) for task in by_ref.values() if task.type == "SET_VARIABLE")
            todo += [inside for value in sets for _, inside in expressions.found_in(value)]
        task = by_ref.get(one.root)
        if task is not None and task.ref not in found:
            found.add(task.ref)
            todo += _inside(task)
    return frozenset(found)


def _first_expressions(workflow: Workflow) -> Iterator[Expression]:
    values: list[object] = [workflow.outputs]
    for task in workflow.walk():
        whole = task.type in DYNAMIC_FORKS or task.type in CALLS or task.name == JOIN
        values.append(task.inputs if whole else task.inputs.get("workspace"))
        values += [task.inputs] if task.type == "TERMINATE" else []
    yield from (one for value in values for _, one in expressions.found_in(value))


def _inside(task: Task) -> list[Expression]:
    if task.type in JOINS:
        return [expressions.parse(f"{ref}.output") for ref in task.join_on]
    if task.type in SCRIPTS | CALLS:
        return [one for _, one in expressions.found_in(task.inputs)]
    return []


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from texts_in(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from texts_in(one)
