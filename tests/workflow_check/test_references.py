"""Every `${…}` names something that exists and has run before; what may be absent in an ordinary workflow is no finding."""

import pytest
from tests.support.workflow_json import Json, call, findings, fork, loop, one_error, set_variable, step, switch, task, workflow

from perago.workflow_check import expressions


def uses(expression: str, ref: str = "user") -> Json:
    return step(ref, inputs={"value": expression})


ERRORS: dict[str, tuple[Json, list[str]]] = {
    "an unknown step": (workflow(step("clean"), uses("${claen.output.x}")), ["claen", "did you mean clean?"]),
    "an unknown attribute": (workflow(step("clean"), uses("${clean.outputs.x}")), ["outputs", "did you mean output?"]),
    "an unknown part of the workflow": (workflow(uses("${workflow.inputs.x}")), ["did you mean input?"]),
    "a later step": (workflow(uses("${clean.output.x}"), step("clean")), ["clean does not run before it", "it runs later"]),
    "itself": (workflow(uses("${user.output.x}")), ["refers to itself"]),
    "another case": (
        workflow(switch("s", {"a": [step("clean")], "b": [uses("${clean.output.x}")]})),
        ["it runs in case 'a' of s, and this task in case 'b'"],
    ),
    "another lane": (
        workflow(fork("f", [step("clean")], [uses("${clean.output.x}")])),
        ["it runs in another lane of f at the same time"],
    ),
    "an unset variable": (
        workflow(set_variable("v", total=1), uses("${workflow.variables.totals}")),
        ["no task sets the variable totals", "did you mean total?"],
    ),
    "a variable that is set later": (
        workflow(uses("${workflow.variables.total}"), set_variable("v", total=1)),
        ["no SET_VARIABLE sets total before it"],
    ),
    "inside a text": (workflow(step("clean"), uses("n: ${claen.output.x}!")), ["did you mean clean?"]),
    "deep inside": (workflow(step("clean"), step("user", inputs={"a": [{"b": "${claen.output.x}"}]})), ["a[0].b takes"]),
    "the name of a sub-workflow": (
        workflow(step("clean"), task("user", "SUB_WORKFLOW", subWorkflowParam={"name": "${claen.output.x}"})),
        ["subWorkflowParam.name", "did you mean clean?"],
    ),
    "a sub-workflow's output": (
        workflow(
            task(
                "sub",
                "SUB_WORKFLOW",
                subWorkflowParam={
                    "workflowDefinition": workflow(step("x"), name="inner", outputParameters={"total": "${x.output.n}"})
                },
            ),
            uses("${sub.output.totl}"),
        ),
        ["inner returns no totl", "did you mean total?"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_wrong_reference_is_an_error(name: str) -> None:
    document, words = ERRORS[name]
    ref, text = one_error(document)
    assert ref == "user"
    for word in words:
        assert word in text


def test_the_output_of_the_workflow_is_checked() -> None:
    ref, text = one_error(workflow(step("clean"), outputParameters={"n": "${claen.output.x}"}))
    assert ref is None
    assert text.startswith("outputParameters.n takes ${claen.output.x}")


RIGHT: dict[str, Json] = {
    "after a fork": workflow(fork("f", [step("a"), step("b")], [step("c")]), uses("${a.output.x}"), uses("${c.output.x}", "u2")),
    "in every case": workflow(
        switch("s", {"a": [set_variable("v1", x=1)]}, [set_variable("v2", x=2)]), uses("${workflow.variables.x}")
    ),
    "the other case ends the workflow": workflow(
        switch("s", {"a": [task("end", "TERMINATE")]}, [step("a")]), uses("${a.output.x}")
    ),
    "a variable of the definition": workflow(uses("${workflow.variables.x}"), variables={"x": 1}),
    "the loop's own number": workflow(loop("l", uses("${l.output.iteration}"), uses("${l['iteration']}", "u2"))),
    "the loop's input reads its body": workflow(
        {**loop("l", step("a")), "inputParameters": {"value": "${a.output.x}", "v": "${workflow.variables.x}"}},
        variables={"x": 1},
    ),
    "after a loop": workflow(loop("l", step("a")), uses("${a.output.x}"), uses("${a__2.output.x}", "u2")),
    "both cases in the output": workflow(
        switch("s", {"a": [step("a")]}, [step("b")]), outputParameters={"a": "${a.output.x}", "b": "${b.output.x}"}
    ),
    "a choice in a script": workflow(
        switch("s", {"a": [step("a")]}), task("q", "INLINE", {"a": "${a.output.x}", "expression": "$.a"})
    ),
    "environment and functions": workflow(
        uses("${CPEWF_TASK_ID}"), uses("${workflow.input.items.length()}", "u2"), uses("$${not.a.reference}", "u3")
    ),
    "nested expressions": workflow(step("a"), uses("${workflow.input.map.${a.output.key}}")),
    "other facts": workflow(step("a"), uses("${a.taskId}"), uses("${workflow.workflowId}", "u2"), uses("${a.input.x}", "u3")),
    "JsonPath": workflow(
        step("a"), uses("${a.output['x'][0].y[*].z}"), uses("${a.output..x}", "u2"), uses("${a.output.x[?(@.y > 1)]}", "u3")
    ),
    "a declared input": workflow(uses("${workflow.input.x}"), inputParameters=["x"]),
    "an input with a default": workflow(uses("${workflow.input.x}"), inputParameters=["y"], inputTemplate={"x": 1}),
    "a sub-workflow without outputParameters": workflow(
        call("sub", "elsewhere"),
        uses("${sub.output.anything}"),
    ),
    "a second JOIN": workflow(
        fork("f", [step("a")], [step("b")], join_on=["a"]), task("j2", "JOIN", joinOn=["b"]), uses("${b.output.x}")
    ),
    "an unknown type": workflow(task("a", "OF_OUR_OWN", {"x": 1}), uses("${a.output.x}")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_reference_passes(name: str) -> None:
    assert findings(RIGHT[name]) == []


WARNINGS: dict[str, tuple[Json, str]] = {
    "a case that may not run": (workflow(switch("s", {"a": [step("a")]}), uses("${a.output.x}")), "only runs in case 'a' of s"),
    "the first iteration": (workflow(loop("l", uses("${a.output.x}"), step("a"))), "has not run in the first iteration"),
    "a lane that no JOIN waits for": (
        workflow(fork("f", [step("a")], [step("b")], join_on=["b"]), uses("${a.output.x}")),
        "no JOIN has waited for its lane of f",
    ),
    "an input that is not declared": (workflow(uses("${workflow.input.y}"), inputParameters=["x"]), "do not name"),
    "program text": (workflow(task("user", "INLINE", {"expression": "`${rows.length}`"})), "no task has the reference name rows"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_depends_on_the_run_is_a_warning(name: str) -> None:
    document, words = WARNINGS[name]
    [(level, ref, text)] = findings(document)
    assert (level, ref) == ("warning", "user")
    assert words in text


def test_an_input_that_is_not_declared_is_named_once() -> None:
    document = workflow(uses("${workflow.input.y}"), uses("${workflow.input.y}", "u2"), inputParameters=["x"])
    assert len(findings(document)) == 1


@pytest.mark.parametrize(
    ("text", "path", "complete"),
    [
        ("a.output.x", ("a", "output", "x"), True),
        ("$.a.output", ("a", "output"), True),
        ("a['output'][\"x\"][0]", ("a", "output", "x", "0"), True),
        ("a.output.length()", ("a", "output"), False),
        ("a.output[*].x", ("a", "output"), False),
        ("", (), True),
    ],
)
def test_paths(text: str, path: tuple[str, ...], complete: bool) -> None:
    found = expressions.parse(text)
    assert (found.path, found.complete) == (path, complete)
