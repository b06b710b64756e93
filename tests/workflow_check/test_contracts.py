"""The inputs of tasks whose modules are given, against their schemas."""

from typing import Any

import pytest
from tests.support.workflow_json import EVERY_TASK, START, Json, findings, left_by, loop, one_error, step, switch, workflow


def plain(ref: str, name: str = "tests.plain", **params: Any) -> Json:
    return step(ref, name=name, inputs={"params": params})


SOURCE = plain("source")


def takes(**params: Any) -> Json:
    return workflow(SOURCE, plain("user", **params))


ERRORS: dict[str, tuple[Json, list[str]]] = {
    "an unknown param": (takes(txet="a"), ["params.txet is unknown", "did you mean text?"]),
    "a missing param": (workflow(plain("user", name="tests.one")), ['params.item is missing; write "item": …']),
    "a literal of a wrong type": (takes(n="many"), ["params.n", "valid integer"]),
    "a literal that is no enum value": (takes(colour="green"), ["params.colour", "'red' or 'blue'"]),
    "a literal beside a reference": (takes(n="many", text="${source.output.result.text}"), ["params.n"]),
    "int to str": (takes(text="${source.output.result.n}"), ["params.text", "integer does not fit string"]),
    "float to int": (takes(n="${source.output.result.ratio}"), ["number does not fit integer"]),
    "optional to required": (takes(n="${source.output.result.maybe}"), ["null does not fit integer"]),
    "a text around a reference": (takes(n="${source.output.result.n} rows"), ["string does not fit integer"]),
    "an object to a list": (takes(numbers="${source.output.result.nested}"), ["object does not fit array"]),
    "a list item": (takes(numbers=[1, "${source.output.result.text}"]), ["params.numbers[1]", "string does not fit integer"]),
    "a field of an object": (
        takes(nested={"name": "${source.output.result.n}"}),
        ["params.nested.name", "integer does not fit string"],
    ),
    "an unknown field of an object": (
        takes(nested={"name": "${source.output.result.text}", "sise": 1}),
        ["params.nested.sise is unknown", "did you mean size?"],
    ),
    "a missing field of an object": (
        takes(nested={"size": "${source.output.result.n}"}),
        ["params.nested.name is missing"],
    ),
    "another model": (takes(nested="${source.output.result}"), ["its field name is missing"]),
    "a field that does not exist": (takes(text="${source.output.result.txet}"), ["has no field txet", "did you mean text?"]),
    "a field beside the result": (takes(n="${source.output.n}"), ["write ${source.output.result.n}"]),
    "the Python name of a field": (takes(n="${source.output.result.other}"), ["has no field other", "did you mean otherName?"]),
    "a task without workspace has none": (takes(n="${source.output.workspace.ref}"), ["tests.plain has no workspace"]),
    "params outside params": (
        workflow(step("user", name="tests.plain", inputs={"n": 1, "params": {}})),
        ['write it inside params: "params": {"n": …}'],
    ),
    "no params": (workflow(step("user", name="tests.one")), ['write "params": {"item": …}']),
    "a workspace for a task without": (
        workflow(step("user", START, name="tests.plain", inputs={"params": {}})),
        ["has no workspace; remove it"],
    ),
    "a case that may not run": (
        workflow(switch("s", {"a": [SOURCE]}), plain("user", n="${source.output.result.n}")),
        ["null on some paths", "it only runs in case 'a' of s"],
    ),
    "an optional step": (
        workflow({**SOURCE, "optional": True}, plain("user", n="${source.output.result.n}")),
        ["source is optional and may fail"],
    ),
    "the first iteration": (
        workflow(loop("l", plain("user", n="${source.output.result.n}"), SOURCE)),
        ["has not run in the first iteration"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_input_that_does_not_fit_is_an_error(name: str) -> None:
    document, words = ERRORS[name]
    ref, text = one_error(document, EVERY_TASK)
    assert ref == "user"
    for word in words:
        assert word in text


RIGHT: dict[str, Json] = {
    "int to float": takes(ratio="${source.output.result.n}"),
    "enum to enum": takes(colour="${source.output.result.colour}"),
    "date to date": takes(day="${source.output.result.day}"),
    "model to model": takes(nested="${source.output.result.nested}"),
    "list to list": takes(numbers="${source.output.result.numbers}"),
    "optional to optional": takes(maybe="${source.output.result.maybe}"),
    "an alias": takes(n="${source.output.result.otherName}"),
    "from the workflow's input": takes(n="${workflow.input.n}", text="${workflow.input.text}"),
    "all params from the input": workflow(step("user", name="tests.plain", inputs={"params": "${workflow.input.params}"})),
    "a text with a reference": takes(text="n is ${source.output.result.n}"),
    "an item of a list": takes(n="${source.output.result.numbers[0]}"),
    "the number of the iteration": workflow(loop("l", plain("user", n="${l.output.iteration}"))),
    "a case that may not run, to an optional param": workflow(
        switch("s", {"a": [SOURCE]}), plain("user", maybe="${source.output.result.n}")
    ),
    "a wrong field of an unknown task": workflow(step("other"), plain("user", n="${other.output.anything.at.all}")),
    "a workspace task": workflow(
        step("w", START, name="tests.write", inputs={"params": {"n": 1}}),
        step("user", left_by("w"), name="tests.write", inputs={"params": {"n": "${w.output.result.n}"}}),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_input_that_fits_passes(name: str) -> None:
    assert findings(RIGHT[name], EVERY_TASK) == []


def test_types_are_followed_through_a_sub_workflow() -> None:
    inner = workflow(SOURCE, name="inner", outputParameters={"count": "${source.output.result.n}"})
    sub = {"name": "sub", "taskReferenceName": "sub", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "inner"}}
    ref, text = one_error(workflow(sub, plain("user", text="${sub.output.count}")), EVERY_TASK, [inner])
    assert ref == "user"
    assert "integer does not fit string" in text


def test_all_problems_are_reported_at_once() -> None:
    document = takes(n="${source.output.result.text}", text="${source.output.result.n}", nn=1, colour="green")
    assert len(findings(document, EVERY_TASK)) == 4
