"""What Conductor stores of a compiled pipeline is what was sent."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.compiled_runs import own_name
from tests.support.pipeline_tasks import plain, read, write, write_one
from tests.support.workflow_driver import WorkflowDriver

from perago import Flow, pipeline
from perago.conductor import workflow_registration
from perago.conductor.client import ConductorClient
from perago.conductor.registration import FieldChange, Verdict
from perago.dev.stack import Endpoints
from perago.pipelines import compiler, graph
from perago.pipelines.flow import pipeline_of


def every_construct(name: str, at_most: int = 2) -> graph.Pipeline:
    @pipeline(name=name, owner_email="tests@example.com", description="Everything.")
    def everything(flow: Flow) -> None:
        with flow.repeat(at_most=at_most) as loop:
            with flow.when((loop.iteration == 1) | (loop.iteration > 5)) as branch:
                flow.step(write, ref="a", optional=True, nested=None, text='it\'s ${x} "quoted" \\ \n')
            with branch.otherwise():
                flow.step(plain)
            with flow.fork() as fork:
                with fork.lane("x"):
                    flow.step(read)
                with fork.lane("y"):
                    flow.each([1, 2], write_one)
        flow.wait(seconds=3)

    declared = pipeline_of(everything)
    assert declared is not None
    return declared


@pytest.fixture
def client(stack: Endpoints) -> Iterator[ConductorClient]:
    with contextlib.closing(ConductorClient(stack.conductor_url, timeout=20.0)) as made:
        yield made


def added(sent: Any, held: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that only the held definition has; anything lost or changed fails."""
    if isinstance(sent, dict):
        assert isinstance(held, dict) and set(sent) <= set(held), where  # noqa: PT018
        for name, value in held.items():  # pyright: ignore[reportUnknownVariableType]
            if name in sent:
                yield from added(sent[name], value, f"{where}.{name}")
            else:
                yield f"{where}.{name}", value
    elif isinstance(sent, list) and sent:
        assert isinstance(held, list) and len(held) == len(sent), where  # pyright: ignore[reportUnknownArgumentType]  # noqa: PT018
        for one, other in zip(sent, held, strict=True):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from added(one, other, f"{where}[]")
    else:
        assert (sent, type(sent)) == (held, type(held)), where  # pyright: ignore[reportUnknownArgumentType]


def test_a_definition_comes_back_unchanged(driver: WorkflowDriver) -> None:
    sent = compiler.workflow(every_construct(own_name()))
    driver.register(sent)
    held = driver.call("GET", f"/metadata/workflow/{sent['name']}")
    more = dict(added(sent, held))
    bookkeeping = {".createTime", ".updateTime", ".createdBy", ".updatedBy"}
    assert {name for name, value in more.items() if value and name not in bookkeeping} == {".enforceSchema"}


def test_only_a_changed_definition_gets_a_new_version(driver: WorkflowDriver, client: ConductorClient) -> None:
    sent = compiler.workflow(every_construct(own_name()))
    driver.removed_at_the_end(sent["name"])
    first = workflow_registration.register(client, sent)
    assert (first.verdict, first.version) == (Verdict.CREATED, 1)
    again = workflow_registration.register(client, sent)
    assert (again.verdict, again.version) == (Verdict.UNCHANGED, 1)
    other = compiler.workflow(every_construct(sent["name"], at_most=3))
    changed = workflow_registration.register(client, other)
    assert (changed.verdict, changed.version) == (Verdict.UPDATED, 2)
    before, after = "$['repeat'].iteration < 2", "$['repeat'].iteration < 3"
    assert changed.changes == (FieldChange("tasks.repeat.loopCondition", before, after),)
    assert [one["version"] for one in driver.call("GET", f"/metadata/workflow/{sent['name']}/versions")] == [1, 2]


def test_a_call_names_the_version_that_was_registered_with_it(driver: WorkflowDriver, client: ConductorClient) -> None:
    child, parent = own_name(), own_name()
    call = {"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": child}}
    called, calling = (_workflow(name, tasks) for name, tasks in ((child, [_wait("1 s")]), (parent, [call])))
    for name in (child, parent):
        driver.removed_at_the_end(name)
    first = workflow_registration.register_all(client, [called, calling])
    again = workflow_registration.register_all(client, [called, calling])
    changed = workflow_registration.register_all(client, [_workflow(child, [_wait("2 s")]), calling])
    assert [[one.version for one in run] for run in (first, again, changed)] == [[1, 1], [1, 1], [2, 2]]
    held = [driver.call("GET", f"/metadata/workflow/{parent}?version={version}") for version in (1, 2)]
    assert [one["tasks"][0]["subWorkflowParam"]["version"] for one in held] == [1, 2]


def _workflow(name: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    limits = {"timeoutSeconds": 0, "timeoutPolicy": "ALERT_ONLY"}
    return {"name": name, "version": 1, "schemaVersion": 2, "ownerEmail": "tests@example.com", "tasks": tasks, **limits}


def _wait(duration: str) -> dict[str, Any]:
    return {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": duration}}
