"""Random definitions: none crashes the checker, and its verdict on workspaces is that of running every path."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st
from tests.support.workflow_json import (
    EVERY_TASK,
    START,
    Json,
    findings,
    fork,
    left_by,
    loop,
    set_variable,
    step,
    switch,
    workflow,
)

REFS = st.sampled_from(["a", "b", "c", "d", "e"])
EXPRESSIONS = st.sampled_from(
    [
        *(
            START,
            "${a.output.workspace}",
            "${b.output.result}",
            "${c.output}",
            "${workflow.variables.v}",
            "${d.output.result.lanes.x}",
        ),
        *(
            "plain",
            "${",
            "${}",
            "${a",
            "$${a.b}",
            "${a.${b.output.x}}",
            "${a.output[*].x}",
            "${x.y.z}",
            "${workflow}",
            "${.}",
            "${a..b}",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | EXPRESSIONS | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["x", "branch", "ref", "lanes"]), inside, max_size=3)
    ),
    max_leaves=6,
)
INPUTS = st.dictionaries(
    st.sampled_from(["workspace", "params", "v", "queryExpression", "expression", "forkTaskName", "workflowOutput"]),
    VALUES,
    max_size=4,
)
TYPES = st.sampled_from(
    [
        *("SIMPLE", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION", "DO_WHILE", "SUB_WORKFLOW"),
        *("DYNAMIC", "SET_VARIABLE", "HUMAN", "WAIT", "HTTP", "INLINE", "JSON_JQ_TRANSFORM", "TERMINATE", "EVENT", "LAMBDA"),
        *("KAFKA_PUBLISH", "START_WORKFLOW", "OF_OUR_OWN", "", None),
    ]
)
NAMES = st.sampled_from(["tests.write", "tests.read", "tests.plain", "perago.fork", "perago.join", "other"])


def any_task(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    tasks = st.lists(inside, max_size=3)
    return st.fixed_dictionaries(
        {"taskReferenceName": REFS, "type": TYPES, "name": NAMES, "inputParameters": INPUTS},
        optional={
            "optional": st.booleans(),
            "forkTasks": st.lists(tasks, max_size=3) | VALUES,
            "decisionCases": st.dictionaries(st.sampled_from(["x", "y"]), tasks, max_size=2) | VALUES,
            "defaultCase": tasks | VALUES,
            "loopOver": tasks | VALUES,
            "joinOn": st.lists(REFS, max_size=3) | VALUES,
            "subWorkflowParam": st.fixed_dictionaries({"name": st.sampled_from(["w", "other", "${a.output.x}"])}) | VALUES,
            "dynamicTaskNameParam": st.just("v"),
        },
    )


TASKS = st.recursive(any_task(VALUES) | VALUES, any_task, max_leaves=8)
WORKFLOWS = st.fixed_dictionaries(
    {"tasks": st.lists(TASKS, max_size=5)},
    optional={
        "name": st.just("w"),
        "version": VALUES,
        "inputParameters": st.lists(st.text(max_size=3), max_size=2) | VALUES,
        "inputTemplate": VALUES,
        "outputParameters": st.dictionaries(st.sampled_from(["workspace", "x"]), VALUES, max_size=2) | VALUES,
        "variables": VALUES,
    },
)


@given(st.one_of(WORKFLOWS, st.lists(WORKFLOWS, max_size=3), VALUES))
def test_no_definition_crashes_the_checker(document: object) -> None:
    for level, ref, text in findings(document, EVERY_TASK):
        assert level in {"error", "warning"}
        assert ref is None or isinstance(ref, str)
        assert text
        assert "\n" not in text


# the verdict on workspaces against an execution of every path


@dataclass
class Run:
    """One execution: the commit of the branch, and what steps and variables hold."""

    choices: Iterator[int]
    head: int = 0
    outputs: dict[str, int | None] = field(default_factory=dict[str, int | None])
    variable: int | None = None
    refused: bool = False

    def read(self, expression: str) -> int | None:
        if expression == START:
            return 0
        if expression == "${workflow.variables.v}":
            return self.variable
        return self.outputs.get(expression.removeprefix("${").partition(".")[0])

    def execute(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        for one in tasks:
            self._task(one)

    def _task(self, one: Mapping[str, Any]) -> None:
        match one["type"]:
            case "SIMPLE" if "workspace" in one["inputParameters"]:
                taken = self.read(one["inputParameters"]["workspace"])
                self.refused = self.refused or taken != self.head
                self.head = next(_commits)
                self.outputs[one["taskReferenceName"]] = self.head
            case "SET_VARIABLE":
                self.variable = self.read(one["inputParameters"]["v"])
            case "SWITCH":
                self.execute(one["decisionCases"]["a"] if next(self.choices) else one["defaultCase"])
            case "DO_WHILE":
                for _ in range(1 + next(self.choices)):
                    self.execute(one["loopOver"])
            case "FORK_JOIN":
                self._fork(one["forkTasks"])
            case _:
                pass

    def _fork(self, lanes: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        start = replace(self, outputs=dict(self.outputs))
        ends: list[Run] = []
        for lane in lanes:
            ends.append(replace(start, outputs=dict(start.outputs)))
            ends[-1].execute(lane)
        wrote = [end for end in ends if end.head != start.head]
        self.refused = self.refused or len(wrote) > 1 or any(end.refused for end in ends)
        for end in ends:
            self.outputs.update({ref: one for ref, one in end.outputs.items() if start.outputs.get(ref) != one})
            self.variable = end.variable if end.variable != start.variable else self.variable
            self.head = end.head if end in wrote else self.head


_commits = itertools.count(1)


def choice_count(tasks: Sequence[Mapping[str, Any]]) -> int:
    """How many choices a run may make, in two iterations of each loop."""
    count = 0
    for one in tasks:
        inside = [
            *one.get("decisionCases", {}).get("a", []),
            *one.get("defaultCase", []),
            *itertools.chain(*one.get("forkTasks", [])),
        ]
        count += (one["type"] in {"SWITCH", "DO_WHILE"}) + choice_count(inside) + 2 * choice_count(one.get("loopOver", []))
    return count


@st.composite
def wired(draw: st.DrawFn) -> Json:
    """A workflow of writers, variables, conditions and loops, in which each workspace comes from anywhere before it."""
    numbers = itertools.count()
    sources = [START, "${workflow.variables.v}"]

    def block(depth: int) -> list[Json]:
        return [made for _ in range(draw(st.integers(1, 3))) for made in some(depth)]

    def apart(depth: int) -> tuple[list[Json], list[Json]]:
        """Two blocks, of which neither refers to the other."""
        before = list(sources)
        first = block(depth - 1)
        new = sources[len(before) :]
        sources[:] = before
        second = block(depth - 1)
        sources.extend(new)
        return first, second

    def some(depth: int) -> list[Json]:
        if not depth or draw(st.integers(0, 5)):
            return [one(depth)]
        # A JOIN waits for the last task of a lane, but not for the cases of a SWITCH.
        number = next(numbers)
        return fork(f"f{number}", *([*lane, step(f"end{number}_{index}")] for index, lane in enumerate(apart(depth))))

    def one(depth: int) -> Json:
        ref = f"t{next(numbers)}"
        kind = draw(st.sampled_from(["write", "write", "set", *(["switch", "loop"] if depth else [])]))
        # The most recent sources are the right ones most of the time.
        source = draw(st.sampled_from([*sources, *sources[-1:] * 4, "${workflow.variables.v}"]))
        if kind == "write":
            sources.append(left_by(ref))
            return step(ref, source)
        if kind == "set":
            return set_variable(ref, v=source)
        if kind == "switch":
            case, default = apart(depth) if draw(st.booleans()) else (block(depth - 1), [])
            return switch(ref, {"a": case}, default)
        return loop(ref, *block(depth - 1))

    return workflow(set_variable("first", v=START), block(2))


@given(wired())
def test_the_verdict_is_that_of_running_every_path(document: Json) -> None:
    count = choice_count(document["tasks"])
    assume(count <= 10)
    runs: list[Run] = []
    for choices in itertools.product([0, 1], repeat=count):
        run = Run(iter(choices))
        run.execute(document["tasks"])
        runs.append(run)
    found = [one for one in findings(document) if one[0] == "error"]
    refused = any(run.refused for run in runs)
    event(f"refused: {refused}")
    assert bool(found) == refused, found
