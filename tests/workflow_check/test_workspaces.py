"""The wirings of docs/how-to/wire-a-workflow.md: the right ones pass, each wrong one is found with what to write."""

import pytest
from tests.support.workflow_json import (
    EVERY_TASK,
    START,
    Json,
    call,
    findings,
    fork,
    left_by,
    loop,
    one_error,
    query,
    set_variable,
    step,
    switch,
    task,
    workflow,
)

VARIABLE = "${workflow.variables.workspace}"
PREPARE = workflow(step("last", START), name="prepare", outputParameters={"workspace": left_by("last")})


def own_branch(branch: str, ref: str = "${workflow.input.workspace.ref}") -> Json:
    return {"repository": "${workflow.input.workspace.repository}", "branch": branch, "ref_type": "commit", "ref": ref}


RIGHT = {
    "one after another": workflow(step("clean", START), step("report", left_by("clean"))),
    "a bare list of tasks": [step("clean", START), step("report", left_by("clean"))],
    "readers start anywhere": workflow(
        step("clean", START),
        step("look", START, name="tests.read", inputs={"params": {}}),
        step("report", left_by("clean")),
    ),
    "a reader passes its workspace on": workflow(
        step("look", START, name="tests.read", inputs={"params": {}}), step("clean", left_by("look"))
    ),
    "one writer beside readers": workflow(
        fork("f", [step("audio", START)], [step("look", START, name="tests.read", inputs={"params": {}})], [step("plain")]),
        step("after", left_by("audio")),
    ),
    "through the JOIN's output": workflow(
        fork("f", [step("audio", START)], [step("plain")]), step("after", "${f_join.output.audio.workspace}")
    ),
    "a branch per lane": workflow(fork("f", [step("audio", own_branch("audio"))], [step("video", own_branch("video"))])),
    "a workspace written out": workflow(
        step("a", START), step("b", own_branch("${workflow.input.workspace.branch}", "${a.output.workspace.ref}"))
    ),
    "a loop with a variable": workflow(
        set_variable("begin", workspace=START),
        loop("l", step("train", VARIABLE), set_variable("keep", workspace=left_by("train"))),
        step("after", left_by("train")),
        step("end", left_by("after")),
    ),
    "a loop with a query": workflow(
        loop(
            "l",
            query(
                "chosen",
                "if .iteration <= 1 then .first else .last end",
                iteration="${l.output.iteration}",
                first=START,
                last=left_by("train"),
            ),
            step("train", "${chosen.output.result}"),
        ),
        step("after", left_by("train")),
    ),
    "a loop with a script": workflow(
        loop(
            "l",
            task("chosen", "INLINE", {"first": START, "last": left_by("train"), "expression": "$.last ? $.last : $.first"}),
            step("train", "${chosen.output.result}"),
        ),
    ),
    "a loop that only reads": workflow(loop("l", step("look", START, name="tests.read", inputs={"params": {}}))),
    "sub-workflows in sequence": [
        workflow(call("first", "prepare", workspace=START), call("second", "prepare", workspace=left_by("first"))),
        PREPARE,
    ],
    "sub-workflows without a definition": workflow(
        call("first", "elsewhere", workspace=START), call("second", "elsewhere", workspace=left_by("first"))
    ),
    "an inline sub-workflow": workflow(
        task("first", "SUB_WORKFLOW", {"workspace": START}, subWorkflowParam={"name": "prepare", "workflowDefinition": PREPARE}),
        step("second", left_by("first")),
    ),
    "a sub-workflow whose last task is its output": [
        workflow(call("first", "prepare", workspace=START), step("second", left_by("first"))),
        workflow(step("last", START), name="prepare"),
    ],
    "a sub-workflow that ends early": [
        workflow(call("first", "early", workspace=START), step("second", left_by("first"))),
        workflow(
            switch(
                "s",
                {"stop": [task("t", "TERMINATE", {"terminationStatus": "COMPLETED", "workflowOutput": {"workspace": START}})]},
            ),
            step("last", START),
            name="early",
            outputParameters={"workspace": left_by("last")},
        ),
    ],
    "every case sets the variable": workflow(
        switch(
            "s",
            {"a": [step("one", START), set_variable("k1", workspace=left_by("one"))]},
            [set_variable("k2", workspace=START)],
        ),
        step("after", VARIABLE),
    ),
    "a query after a case": workflow(
        switch("s", {"a": [step("one", START)]}),
        query("chosen", ".after // .before", after=left_by("one"), before=START),
        step("after", "${chosen.output.result}"),
    ),
    "the other case ends the workflow": workflow(
        switch("s", {"a": [task("t", "TERMINATE", {"terminationStatus": "FAILED"})]}, [step("one", START)]),
        step("after", left_by("one")),
    ),
    "an optional writer": workflow(
        step("one", START, optional=True),
        query("chosen", ".after // .before", after=left_by("one"), before=START),
        step("after", "${chosen.output.result}"),
    ),
    "the branch's head, read before each iteration": workflow(
        loop("l", task("head", "HTTP", {"uri": "x"}), step("train", "${head.output.response.body.workspace}"))
    ),
    "a wait between the steps": workflow(step("a", START), task("w", "WAIT"), task("h", "HUMAN"), step("b", left_by("a"))),
    "lanes of perago.fork": workflow(
        step("f_begin", START, name="perago.fork", inputs={"params": {"lanes": ["audio", "video"]}}),
        fork(
            "f",
            [step("a1", "${f_begin.output.result.lanes.audio}"), step("a2", left_by("a1"))],
            [step("v1", "${f_begin.output.result.lanes.video}")],
        ),
        step("f_end", START, name="perago.join", inputs={"params": {"lanes": {"audio": left_by("a2"), "video": left_by("v1")}}}),
        step("after", left_by("f_end")),
    ),
    "a dynamic fork over readers": workflow(
        query("lanes", '{tasks: [{name: "tests.read"}], inputs: .workspace}', workspace=START),
        task("f", "FORK_JOIN_DYNAMIC", {"tasks": "${lanes.output.result.tasks}", "inputs": "${lanes.output.result.inputs}"}),
        task("f_join", "JOIN"),
    ),
    "another product's workspace": workflow(step("a", "our chat"), step("b", "our chat"), step("c", {"team": "x"})),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_wiring_passes(name: str) -> None:
    assert findings(RIGHT[name], EVERY_TASK) == []


NEXT_IS_CLEAN = 'write "workspace": "${clean.output.workspace}"'

WRONG: dict[str, tuple[object, str, list[str]]] = {
    "both start from the input": (
        workflow(step("clean", START), step("report", START)),
        "report",
        [START, "clean has written", NEXT_IS_CLEAN],
    ),
    "a step was left out": (
        workflow(step("raw", START), step("clean", left_by("raw")), step("report", left_by("raw"))),
        "report",
        [left_by("raw"), NEXT_IS_CLEAN],
    ),
    "a declared writer": (
        workflow(step("clean", START), step("report", START, name="tests.write", inputs={"params": {}})),
        "report",
        [NEXT_IS_CLEAN],
    ),
    "no workspace at all": (
        workflow(step("clean", START), step("report", name="tests.write", inputs={"params": {}})),
        "report",
        ["the input workspace is missing", NEXT_IS_CLEAN],
    ),
    "the whole output": (
        workflow(step("clean", START), step("report", "${clean.output}")),
        "report",
        ["is no workspace", NEXT_IS_CLEAN],
    ),
    "only the commit": (
        workflow(step("clean", START), step("report", "${clean.output.workspace.ref}")),
        "report",
        ["is no workspace", NEXT_IS_CLEAN],
    ),
    "two lanes write": (
        workflow(fork("f", [step("audio", START)], [step("video", START)])),
        "video",
        ["at the same time as audio", '"workspace": "${audio.output.workspace}"'],
    ),
    "a lane that no JOIN waits for": (
        workflow(fork("f", [step("audio", START)], [step("plain")], join_on=["plain"]), step("after", left_by("audio"))),
        "after",
        ["audio"],
    ),
    "a JOIN on a SWITCH does not wait for its case": (
        workflow(fork("f", [switch("s", {"a": [step("audio", START)]})], [step("plain")]), step("after", START)),
        "after",
        ["at the same time as audio"],
    ),
    "after the fork, the workspace before it": (
        workflow(fork("f", [step("audio", START)], [step("plain")]), step("after", START)),
        "after",
        ['write "workspace": "${audio.output.workspace}"'],
    ),
    "lanes on one branch of their own": (
        workflow(fork("f", [step("audio", own_branch("av"))], [step("video", own_branch("av"))])),
        "video",
        ["at the same time as audio"],
    ),
    "a loop from the input": (
        workflow(loop("l", step("train", START))),
        "train",
        ["iteration before", "set a workflow variable", '"workspace": "${workflow.variables.workspace}"'],
    ),
    "a loop whose variable is never set again": (
        workflow(set_variable("begin", workspace=START), loop("l", step("train", VARIABLE))),
        "train",
        ["set a workflow variable", "after train"],
    ),
    "a loop that keeps the wrong step": (
        workflow(
            set_variable("begin", workspace=START),
            loop("l", step("one", VARIABLE), step("two", left_by("one")), set_variable("keep", workspace=left_by("one"))),
        ),
        "one",
        ["two has written"],
    ),
    "a query that gives the first": (
        workflow(
            loop("l", query("q", ".first", first=START, last=left_by("train")), step("train", "${q.output.result}")),
        ),
        "train",
        ["iteration before"],
    ),
    "two sub-workflows from the input": (
        [workflow(call("first", "prepare", workspace=START), call("second", "prepare", workspace=START)), PREPARE],
        "second",
        ["prepare", 'write "workspace": "${first.output.workspace}"'],
    ),
    "two sub-workflows without a definition": (
        workflow(call("first", "elsewhere", workspace=START), call("second", "elsewhere", workspace=START)),
        "second",
        ['write "workspace": "${first.output.workspace}"'],
    ),
    "a sub-workflow that returns what it was given": (
        [
            workflow(call("first", "prepare", workspace=START), step("second", left_by("first"))),
            {**PREPARE, "outputParameters": {"workspace": START}},
        ],
        "second",
        ["first has written", "let first return its workspace"],
    ),
    "a sub-workflow without the workspace": (
        [workflow(call("first", "prepare")), PREPARE],
        "first",
        ["prepare", "null", f'write "workspace": "{START}"'],
    ),
    "sub-workflows side by side": (
        [workflow(fork("f", [call("one", "prepare", workspace=START)], [call("two", "prepare", workspace=START)])), PREPARE],
        "two",
        ["at the same time as one"],
    ),
    "a sub-workflow in a loop": (
        [workflow(loop("l", call("one", "prepare", workspace=START))), PREPARE],
        "one",
        ["set a workflow variable"],
    ),
    "after a case that may write, the workspace before it": (
        workflow(switch("s", {"a": [step("one", START)]}), step("after", START)),
        "after",
        ["one has written", "depends on the path"],
    ),
    "after a case that may not run, its workspace": (
        workflow(switch("s", {"a": [step("one", START)]}), step("after", left_by("one"))),
        "after",
        ["null on some paths", "it only runs in case 'a' of s"],
    ),
    "an optional writer may have failed": (
        workflow(step("one", START, optional=True), step("after", left_by("one"))),
        "after",
        ["null on some paths", "one is optional"],
    ),
    "the query prefers an old workspace": (
        workflow(
            step("one", START),
            step("two", left_by("one")),
            query("q", ".a // .b", a=left_by("one"), b=left_by("two")),
            step("after", "${q.output.result}"),
        ),
        "after",
        ['write "workspace": "${two.output.workspace}"'],
    ),
    "the head of the branch, read too early": (
        workflow(
            task("head", "HTTP", {"uri": "x"}),
            step("one", "${head.output.response.body.workspace}"),
            step("two", "${head.output.response.body.workspace}"),
        ),
        "two",
        ['write "workspace": "${one.output.workspace}"'],
    ),
    "a lane's first writer is joined": (
        workflow(
            step("f_begin", START, name="perago.fork", inputs={"params": {"lanes": ["audio"]}}),
            fork("f", [step("a1", "${f_begin.output.result.lanes.audio}"), step("a2", left_by("a1"))]),
            step("f_end", START, name="perago.join", inputs={"params": {"lanes": {"audio": left_by("a1")}}}),
        ),
        "f_end",
        ["params.lanes.audio", 'write "audio": "${a2.output.workspace}"'],
    ),
    "two writers in one lane's branch": (
        workflow(
            step("f_begin", START, name="perago.fork", inputs={"params": {"lanes": ["audio"]}}),
            fork("f", [step("a1", "${f_begin.output.result.lanes.audio}"), step("a2", "${f_begin.output.result.lanes.audio}")]),
        ),
        "a2",
        ['write "workspace": "${a1.output.workspace}"'],
    ),
    "a dynamic fork over a writer": (
        workflow(
            query("lanes", '{tasks: [{name: "tests.write"}], inputs: .workspace}', workspace=START),
            task("f", "FORK_JOIN_DYNAMIC", {"tasks": "${lanes.output.result.tasks}", "inputs": "${lanes.output.result.inputs}"}),
            task("f_join", "JOIN"),
        ),
        "f",
        ["tests.write at the same time", "a branch of its own"],
    ),
    "a dynamic task": (
        workflow(
            step("one", START),
            task("two", "DYNAMIC", {"workspace": START, "what": "${workflow.input.what}"}, dynamicTaskNameParam="what"),
        ),
        "two",
        ['write "workspace": "${one.output.workspace}"'],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_wiring_is_found_with_what_to_write(name: str) -> None:
    document, ref, words = WRONG[name]
    found, text = one_error(document, EVERY_TASK)
    assert found == ref
    for word in words:
        assert word in text


def test_a_dynamic_fork_over_an_unknown_task_is_a_warning() -> None:
    document = workflow(
        query("lanes", ".tasks | map({workspace: .workspace})", tasks="${workflow.input.tasks}", workspace=START),
        task("f", "FORK_JOIN_DYNAMIC", {"inputs": "${lanes.output.result}"}),
        task("f_join", "JOIN"),
    )
    assert [(level, ref) for level, ref, _ in findings(document)] == [("warning", "f")]


def test_a_wrong_chain_inside_a_sub_workflow_is_reported_for_that_workflow_only() -> None:
    inner = workflow(step("x", START), step("y", START), name="inner", outputParameters={"workspace": left_by("y")})
    outer = workflow(call("first", "inner", workspace=START), step("second", left_by("first")))
    assert [ref for _, ref, _ in findings([outer, inner])] == ["y"]


def test_a_workflow_that_calls_itself_is_followed_once() -> None:
    document = workflow(step("x", START), call("again", "w", workspace=left_by("x")), name="w")
    assert findings(document) == []


def test_many_conditional_writers_do_not_multiply_the_paths() -> None:
    tasks: list[Json] = [set_variable("begin", workspace=START)]
    for number in range(60):
        kept = set_variable(f"k{number}", workspace=left_by(f"w{number}"))
        tasks.append(switch(f"s{number}", {"a": [step(f"w{number}", VARIABLE), kept]}))
    assert findings(workflow(tasks)) == []
