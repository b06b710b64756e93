"""Compiles forks, conditions and loops.

Inside a loop, a reference to a step that did not run in this iteration gives the output of an earlier one. So where a workspace
has two possible origins, a task of this iteration chooses between them.
"""

from collections.abc import Callable, Sequence

from perago.pipelines import graph
from perago.pipelines import reference_names as names
from perago.pipelines.compiled import javascript
from perago.pipelines.compiled.conductor_tasks import FORK_TASK, JOIN_TASK, Compiled, Json, join, jq, simple
from perago.pipelines.compiled.expressions import Expressions, output

CompileNodes = Callable[[Sequence[graph.Node], str, Expressions], Compiled]

_SAFE_TO_JOIN = frozenset({"JSON_JQ_TRANSFORM", "JOIN", "SUB_WORKFLOW", "WAIT"})
"""The types of tasks that Conductor does not retry, and that are not done before what they lead to."""
_TAKEN = 'if .taken[0] == "true" then .yes else .no end'
_FIRST_OR_LAST = "if .iteration <= 1 then .first else .last end"


def block(
    node: graph.Fork | graph.When | graph.Repeat, workspace: str, expressions: Expressions, inside: CompileNodes
) -> Compiled:
    """`inside` compiles the nodes of the block."""
    match node:
        case graph.Fork():
            return _fork(node, workspace, expressions, inside)
        case graph.When():
            return _when(node, workspace, expressions, inside)
        case graph.Repeat():
            return _repeat(node, workspace, expressions, inside)


def _fork(node: graph.Fork, workspace: str, expressions: Expressions, inside: CompileNodes) -> Compiled:
    ref, begin, end = node.ref, names.begin(node.ref), names.end(node.ref)
    writing = [lane.name for lane in node.lanes if lane.writes]
    before = {lane.name: output(begin, f"result.lanes.{lane.name}") if lane.writes else workspace for lane in node.lanes}
    lanes = {lane.name: _closed(node, lane, inside(lane.nodes, before[lane.name], expressions)) for lane in node.lanes}
    forked: list[Json] = [
        {"name": "fork", "taskReferenceName": ref, "type": "FORK_JOIN", "forkTasks": [lane.tasks for lane in lanes.values()]},
        join(names.join(ref), [lane.tasks[-1]["taskReferenceName"] for lane in lanes.values()]),
    ]
    if not writing:
        return Compiled(forked, workspace)
    first = simple(FORK_TASK, begin, {"workspace": workspace, "params": {"lanes": writing}})
    ends = {name: lanes[name].workspace for name in writing}
    last = simple(JOIN_TASK, end, {"workspace": workspace, "params": {"lanes": ends}})
    return Compiled([first, *forked, last], output(end, "workspace"))


def _closed(fork: graph.Fork, lane: graph.Lane, compiled: Compiled) -> Compiled:
    """A JOIN does not wait for what a SWITCH leads to, and it fails if it looks at a task between its failure and its retry.

    So it waits for a task behind them, which begins when they are done and does not fail.
    """
    if compiled.tasks[-1]["type"] in _SAFE_TO_JOIN:
        return compiled
    return Compiled([*compiled.tasks, jq(names.lane_end(fork.ref, lane.name), "true", {})], compiled.workspace)


def _when(node: graph.When, workspace: str, expressions: Expressions, inside: CompileNodes) -> Compiled:
    script = javascript.of(node.condition, expressions)
    then, otherwise = inside(node.then, workspace, expressions), inside(node.otherwise, workspace, expressions)
    switch: Json = {
        "name": "switch",
        "taskReferenceName": node.ref,
        "type": "SWITCH",
        "evaluatorType": "javascript",
        "expression": f"({script.expression}) ? 'true' : 'false'",
        "inputParameters": dict(script.inputs),
        "decisionCases": {"true": then.tasks},
        "defaultCase": otherwise.tasks,
    }
    if not node.writes:
        return Compiled([switch], workspace)
    taken = {"taken": output(node.ref, "evaluationResult"), "yes": then.workspace, "no": otherwise.workspace}
    return Compiled([switch, jq(names.end(node.ref), _TAKEN, taken)], output(names.end(node.ref), "result"))


def _repeat(node: graph.Repeat, workspace: str, expressions: Expressions, inside: CompileNodes) -> Compiled:
    begin = names.begin(node.ref)
    body = inside(node.nodes, output(begin, "result") if node.writes else workspace, expressions)
    choice = {"iteration": output(node.ref, "iteration"), "first": workspace, "last": body.workspace}
    first = [jq(begin, _FIRST_OR_LAST, choice)] if node.writes else []
    script = None if node.until is None else javascript.of(node.until, expressions)
    again = "" if script is None else f" && !({script.expression})"
    loop: Json = {
        "name": "repeat",
        "taskReferenceName": node.ref,
        "type": "DO_WHILE",
        "inputParameters": {} if script is None else dict(script.inputs),
        "loopCondition": f"$['{node.ref}'].iteration < {node.at_most}{again}",
        "loopOver": [*first, *body.tasks],
    }
    return Compiled([loop], body.workspace if node.writes else workspace)
