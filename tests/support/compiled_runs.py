"""Runs of compiled pipelines on a real Conductor, in which a workspace's ref says which steps it went through."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.workflow_driver import Json, WorkflowDriver

from perago.pipelines import compiler
from perago.pipelines.flow import pipeline_of

WORKSPACE = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "0"}


def own_name() -> str:
    return f"tests_{uuid.uuid4().hex[:12]}"


def run(
    driver: WorkflowDriver, function: Callable[..., Any], given: Mapping[str, Any] | None = None, *, failing: tuple[str, ...] = ()
) -> Json:
    """The workflow at its end. The steps in `failing` (`ref`, or `ref__iteration`) fail; called pipelines are registered."""
    pipeline = pipeline_of(function)
    assert pipeline is not None
    for called in pipeline.called():
        driver.register(compiler.workflow(called))
    workspace = {"workspace": WORKSPACE} if pipeline.has_workspace else {}

    def answer(task: Json) -> Json | None:
        return None if task["referenceTaskName"] in failing else _answered(task)

    return driver.run(compiler.workflow(pipeline), {**workspace, **(given or {})}, answer)


def path(workflow: Json) -> str:
    """The steps that the final workspace went through."""
    assert workflow["status"] == "COMPLETED", workflow.get("reasonForIncompletion")
    return workflow["output"]["workspace"]["ref"]


def inputs(workflow: Json, ref: str) -> list[Any]:
    """The params of every task with that reference name, with those of its iterations."""
    return [task["inputData"]["params"] for task in tasks(workflow, ref)]


def tasks(workflow: Json, ref: str) -> list[Json]:
    return [task for task in workflow["tasks"] if task["referenceTaskName"].partition("__")[0] == ref]


def _answered(task: Json) -> Json:
    """As a worker would: a writer appends its reference name to the ref; the result's n is one more than the parameter."""
    given, ref = task["inputData"], task["referenceTaskName"]
    workspace, params = given.get("workspace"), given["params"]
    match task["taskDefName"]:
        case "perago.fork":
            lanes = params["lanes"] if "lanes" in params else [str(index) for index in range(len(params["count_of"]))]
            return {"workspace": workspace, "result": {"lanes": {name: {**workspace, "branch": name} for name in lanes}}}
        case "perago.join":
            assert all(lane["branch"] == name for name, lane in params["lanes"].items())
            joined = " ".join(lane["ref"] for lane in params["lanes"].values())
            return {"workspace": {**workspace, "ref": f"({joined})"}, "result": {}}
        case "tests.write" | "tests.write_one":
            return {"workspace": {**workspace, "ref": f"{workspace['ref']} {ref}"}, "result": _result(params)}
        case "tests.read":
            return {"workspace": workspace, "result": _result(params)}
        case _:
            return {"result": _result(params)}


def _result(params: Json) -> Json:
    return {**params, "n": params.get("n", params.get("item", 0)) + 1, "otherName": 7}
