"""Conductor's JOIN fails if it looks at a task between its failure and its retry. So none may wait for a task that is retried."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from tests.support.compiled_runs import own_name
from tests.support.pipeline_tasks import plain, write, write_one
from tests.support.workflow_driver import FAIL_ONCE, Json, WorkflowDriver

from perago import Flow, pipeline, task
from perago.pipelines import compiler
from perago.pipelines.flow import pipeline_of

LANES = 4


@pipeline(name=own_name(), owner_email="tests@example.com")
def lanes(flow: Flow) -> None:
    with flow.fork(ref="f") as fork:
        with fork.lane("step"):
            flow.step(write, ref="a")
        with fork.lane("optional"):
            flow.step(plain, ref="b", optional=True)
        with fork.lane("loop"), flow.repeat(at_most=2, ref="r"):
            flow.step(plain, ref="c")
        with fork.lane("fork"), flow.fork(ref="inner") as inner, inner.lane("only"):
            flow.step(write, ref="d")
        with fork.lane("each"):
            flow.each([1, 2], write_one, ref="e")


def compiled() -> dict[str, Any]:
    declared = pipeline_of(lanes)
    assert declared is not None
    return compiler.workflow(declared)


def every_task(tasks: list[Any]) -> Iterator[dict[str, Any]]:
    for one in tasks:
        yield one
        for inside in (*one.get("forkTasks", ()), one.get("loopOver", ())):
            yield from every_task(inside)


def test_a_join_waits_only_for_tasks_that_are_not_retried() -> None:
    tasks = {one["taskReferenceName"]: one for one in every_task(compiled()["tasks"])}
    awaited = {ref: tasks[ref]["type"] for one in tasks.values() for ref in one.get("joinOn", ())}
    assert awaited == {f"f_{lane}_end": "JSON_JQ_TRANSFORM" for lane in ("step", "optional", "loop", "fork", "each")} | {
        "inner_only_end": "JSON_JQ_TRANSFORM"
    }
    assert '"type": "SUB_WORKFLOW"' in tasks["e_tasks"]["inputParameters"]["queryExpression"]


class Item(BaseModel):
    n: int


def test_lanes_survive_retries(driver: WorkflowDriver) -> None:
    """Every lane fails once while Conductor evaluates the JOIN many times a second."""

    @task(name=own_name(), owner_email="tests@example.com")
    def fragile(params: Item) -> Item:
        raise NotImplementedError

    @pipeline(name=own_name(), owner_email="tests@example.com")
    def retried(flow: Flow) -> None:
        with flow.fork() as fork:
            for number in range(LANES):
                with fork.lane(f"l{number}"):
                    flow.step(fragile, ref=f"s{number}", n=number)
        flow.each(list(range(LANES)), fragile, ref="e")

    declared = pipeline_of(retried)
    assert declared is not None
    (name,) = (one.name for one in declared.tasks())
    definition = {"name": name, "retryCount": 2, "retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 60}
    driver.call("POST", "/metadata/taskdefs", [definition | {"ownerEmail": "tests@example.com"}])
    failed: set[str] = set()

    def answer(one: Json) -> Json:
        if one["referenceTaskName"] in failed:
            return {"result": one["inputData"]["params"]}
        failed.add(one["referenceTaskName"])
        return FAIL_ONCE

    try:
        run = driver.run(compiler.workflow(declared), {}, answer)
    finally:
        driver.call("DELETE", f"/metadata/taskdefs/{name}")
    assert run["status"] == "COMPLETED", run.get("reasonForIncompletion")
    assert len(failed) == 2 * LANES
