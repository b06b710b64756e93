"""The pipelines that `pipeline.py` measures, and the same workflows as a person would write them in Conductor's JSON."""

import os
from typing import Any

from bench import _pipeline_append, _pipeline_fill
from pydantic import BaseModel

from perago import Flow, pipeline

Json = dict[str, Any]
PREFIX = os.environ["BENCH_TASK"]
OWNER = "bench@example.com"


class Inputs(BaseModel):
    seconds: float


class Result(BaseModel):
    lines: int


class Lanes(BaseModel):
    lanes: list[int]
    files: int


@pipeline(name=f"{PREFIX}.row", owner_email=OWNER)
def row(flow: Flow, inputs: Inputs) -> Result:
    """Five writers, one after another."""
    for number in range(4):
        flow.step(_pipeline_append.append, ref=f"step{number}", line=number, seconds=inputs.seconds)
    last = flow.step(_pipeline_append.append, ref="last", line=4, seconds=inputs.seconds)
    return Result(lines=last.lines)


@pipeline(name=f"{PREFIX}.branching", owner_email=OWNER)
def branching(flow: Flow, inputs: Inputs) -> Result:
    """A step, a condition that holds, a loop of three iterations, a step."""
    first = flow.step(_pipeline_append.append, ref="first", line=0, seconds=inputs.seconds)
    with flow.when(first.lines > 0):
        flow.step(_pipeline_append.append, ref="chosen", line=1, seconds=inputs.seconds)
    with flow.repeat(at_most=3):
        flow.step(_pipeline_append.append, ref="again", line=2, seconds=inputs.seconds)
    last = flow.step(_pipeline_append.append, ref="last", line=3, seconds=inputs.seconds)
    return Result(lines=last.lines)


@pipeline(name=f"{PREFIX}.lanes", owner_email=OWNER)
def lanes(flow: Flow, inputs: Lanes) -> None:
    """One writing lane per number, joined in one commit."""
    flow.each(inputs.lanes, _pipeline_fill.fill, lane=flow.item, files=inputs.files)


def row_by_hand() -> Json:
    refs = [*(f"step{number}" for number in range(4)), "last"]
    befores = ["workflow.input.workspace", *(f"{ref}.output.workspace" for ref in refs)]
    return _workflow(
        "row-by-hand", [_step(ref, before, number) for number, (ref, before) in enumerate(zip(refs, befores, strict=False))]
    )


def branching_by_hand() -> Json:
    """With the workspace in a workflow variable, as Conductor's documentation has it for loops."""
    variable = "workflow.variables.workspace"
    tasks = [
        _step("first", "workflow.input.workspace", 0),
        _keep("kept_first", "first"),
        {
            "name": "choose",
            "taskReferenceName": "choose",
            "type": "SWITCH",
            "evaluatorType": "javascript",
            "expression": "$.lines > 0 ? 'true' : 'false'",
            "inputParameters": {"lines": "${first.output.result.lines}"},
            "decisionCases": {"true": [_step("chosen", variable, 1), _keep("kept_chosen", "chosen")]},
            "defaultCase": [],
        },
        {
            "name": "loop",
            "taskReferenceName": "loop",
            "type": "DO_WHILE",
            "inputParameters": {},
            "loopCondition": "if ($.loop['iteration'] < 3) { true; } else { false; }",
            "loopOver": [_step("again", variable, 2), _keep("kept_again", "again")],
        },
        _step("last", variable, 3),
    ]
    return _workflow("branching-by-hand", tasks)


def _workflow(name: str, tasks: list[Json]) -> Json:
    return {
        "name": f"{PREFIX}.{name}",
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": OWNER,
        "tasks": tasks,
        "inputParameters": ["workspace", "seconds"],
        "outputParameters": {"lines": "${last.output.result.lines}", "workspace": "${last.output.workspace}"},
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
    }


def _step(ref: str, workspace: str, line: int) -> Json:
    params = {"line": line, "seconds": "${workflow.input.seconds}"}
    given = {"workspace": f"${{{workspace}}}", "params": params}
    return {"name": f"{PREFIX}.append", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": given}


def _keep(ref: str, of: str) -> Json:
    given = {"workspace": f"${{{of}.output.workspace}}"}
    return {"name": ref, "taskReferenceName": ref, "type": "SET_VARIABLE", "inputParameters": given}
