"""Conductor workflow definitions as a person writes them, in short, and what `perago.workflow_check` says of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support import pipeline_tasks

from perago.declare.task import TaskDeclaration, declaration_of
from perago.workflow_check.check import check
from perago.workflow_check.definition import definitions

Json = dict[str, Any]

START = "${workflow.input.workspace}"


def left_by(ref: str) -> str:
    return f"${{{ref}.output.workspace}}"


def step(ref: str, workspace: object = None, name: str = "a.task", **more: Any) -> Json:
    inputs = {} if workspace is None else {"workspace": workspace}
    return task(ref, "SIMPLE", {**inputs, **more.pop("inputs", {})}, name=name, **more)


def task(ref: str, kind: str, inputs: Mapping[str, Any] | None = None, **more: Any) -> Json:
    return {"name": more.pop("name", ref), "taskReferenceName": ref, "type": kind, "inputParameters": dict(inputs or {}), **more}


def fork(ref: str, *lanes: Sequence[Json], join_on: Sequence[str] | None = None) -> list[Json]:
    """The fork and its JOIN, which waits for the last task of each lane."""
    last = [lane[-1]["taskReferenceName"] for lane in lanes if lane] if join_on is None else list(join_on)
    return [task(ref, "FORK_JOIN", forkTasks=[list(lane) for lane in lanes]), task(f"{ref}_join", "JOIN", joinOn=last)]


def switch(ref: str, cases: Mapping[str, Sequence[Json]], default: Sequence[Json] = ()) -> Json:
    kept = {name: list(case) for name, case in cases.items()}
    return task(ref, "SWITCH", {"switchCaseValue": "${workflow.input.case}"}, decisionCases=kept, defaultCase=list(default))


def loop(ref: str, *body: Json) -> Json:
    return task(ref, "DO_WHILE", loopCondition=f"$.{ref}['iteration'] < 3", loopOver=list(body))


def set_variable(ref: str, **values: object) -> Json:
    return task(ref, "SET_VARIABLE", values)


def query(ref: str, expression: str, **inputs: object) -> Json:
    return task(ref, "JSON_JQ_TRANSFORM", {**inputs, "queryExpression": expression})


def call(ref: str, workflow: str, **inputs: object) -> Json:
    return task(ref, "SUB_WORKFLOW", inputs, subWorkflowParam={"name": workflow})


def workflow(*tasks: Json | list[Json], name: str = "w", **more: Any) -> Json:
    flat = [one for given in tasks for one in (given if isinstance(given, list) else [given])]
    return {"name": name, "version": 1, "tasks": flat, **more}


def declared(*functions: Callable[..., Any]) -> list[TaskDeclaration]:
    found = [declaration_of(function) for function in functions]
    return [one for one in found if one is not None]


EVERY_TASK = declared(
    pipeline_tasks.write, pipeline_tasks.read, pipeline_tasks.plain, pipeline_tasks.one, pipeline_tasks.write_one
)


def findings(
    document: object, known: Sequence[TaskDeclaration] = (), others: Sequence[Json] = ()
) -> list[tuple[str, str | None, str]]:
    """Level, step and text, of every workflow of the document."""
    workflows = definitions(document)
    around = [*workflows, *(one for other in others for one in definitions(other))]
    return [(str(one.level), one.ref, one.text) for each in workflows for one in check(each, around, known).findings]


def one_error(document: object, known: Sequence[TaskDeclaration] = (), others: Sequence[Json] = ()) -> tuple[str | None, str]:
    """The only finding, which is an error."""
    found = findings(document, known, others)
    assert [level for level, _, _ in found] == ["error"], found
    return found[0][1], found[0][2]
