"""Compiles `each`: a dynamic fork over a list. A jq query makes its tasks and their inputs, another puts the results in order.

Each lane is a workflow of one step, because Conductor's JOIN fails if it looks at a task between its failure and its retry. In
a workflow of its own the step is retried there, and the JOIN sees only how the lane ended.
"""

import json
from collections.abc import Iterator, Mapping

from perago.declare.signature import WorkspaceKind
from perago.pipelines import graph
from perago.pipelines import reference_names as names
from perago.pipelines.compiled.conductor_tasks import FORK_TASK, JOIN_TASK, Compiled, Json, join, jq, simple
from perago.pipelines.compiled.expressions import Expressions, escaped, output

_REF = "REFERENCE NAME"
"""No reference name has a space."""
_ESCAPE = 'def escape: walk(if type == "string" then split("$" + "{") | join("$$" + "{") else . end); '
"""Conductor looks for expressions in the inputs that a dynamic fork gets, also in texts that are known only now."""


def each(node: graph.Each, workspace: str, expressions: Expressions) -> Compiled:
    return _writing(node, workspace, expressions) if node.writes else _reading(node, workspace, expressions)


def _reading(node: graph.Each, workspace: str, expressions: Expressions) -> Compiled:
    begin, end = names.begin(node.ref), names.end(node.ref)
    items = expressions.value(node.items)
    given = {**_given(node, items, expressions), **({} if node.task.kind is WorkspaceKind.NONE else {"workspace": workspace})}
    tasks = [
        jq(begin, _tasks_query(node), given),
        *_dynamic_fork(node, begin),
        jq(end, _joined(node, _RESULTS), _outputs(node, items)),
    ]
    return Compiled(tasks, workspace)


def _writing(node: graph.Each, workspace: str, expressions: Expressions) -> Compiled:
    """`perago.fork` makes a branch for each item, and `perago.join` takes what each lane left."""
    begin, tasks, results, end = (make(node.ref) for make in (names.begin, names.tasks, names.results, names.end))
    items = expressions.value(node.items)
    given = {**_given(node, items, expressions), "lanes": output(begin, "result.lanes")}
    joined = _outputs(node, items)
    compiled = [
        simple(FORK_TASK, begin, {"workspace": workspace, "params": {"count_of": items}}),
        jq(tasks, _tasks_query(node), given),
        *_dynamic_fork(node, tasks),
        jq(results, _joined(node, _RESULTS_AND_LANES), joined),
        simple(JOIN_TASK, end, {"workspace": workspace, "params": {"lanes": output(results, "result.lanes")}}),
    ]
    return Compiled(compiled, output(end, "workspace"))


def _given(node: graph.Each, items: object, expressions: Expressions) -> Json:
    return {"items": items, "params": expressions.values(node.params)}


def _outputs(node: graph.Each, items: object) -> Json:
    return {"joined": f"${{{names.join(node.ref)}.output}}", "items": items}


def _dynamic_fork(node: graph.Each, made_by: str) -> list[Json]:
    given = {"tasks": output(made_by, "result.tasks"), "inputs": output(made_by, "result.inputs")}
    fork = {
        "name": "each",
        "taskReferenceName": node.ref,
        "type": "FORK_JOIN_DYNAMIC",
        "inputParameters": given,
        "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
    }
    return [fork, join(names.join(node.ref), [])]


def _tasks_query(node: graph.Each) -> str:
    """The list of tasks, and the input of each by its reference name."""
    ref = json.dumps(names.lane(node.ref, ""))
    places = "".join(f" | {place} = $item{item}" for place, item in _places(node.params))
    workspace = "" if node.task.kind is WorkspaceKind.NONE else "workspace: $all.workspace, "
    if node.writes:
        workspace = "workspace: $all.lanes[$i | tostring], "
    return (
        f"{_ESCAPE}. as $all | (.items | length) as $count | {{"
        f"tasks: [range($count) as $i | ({ref} + ($i | tostring)) as $ref | {_lane(node)}], "
        f"inputs: ([range($count) as $i | $all.items[$i] as $item | {{key: ({ref} + ($i | tostring)), "
        f"value: {{{workspace}params: ($all.params{places} | escape)}}}}] | from_entries)}}"
    )


def _lane(node: graph.Each) -> str:
    """The query of a lane's task. The lane and its only step have the same reference name, `$ref`."""
    fields = {"params": "result"} if node.task.kind is WorkspaceKind.NONE else {"params": "result", "workspace": "workspace"}
    given: Json = {name: f"${{workflow.input.{name}}}" for name in fields}
    definition = {
        "name": node.task.name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": node.task.owner_email,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": [simple(node.task.name, _REF, given)],
        "outputParameters": {name: output(_REF, name) for name in fields.values()},
    }
    called = {"name": node.task.name, "version": 1, "workflowDefinition": definition}
    task = {"name": node.task.name, "taskReferenceName": _REF, "type": "SUB_WORKFLOW", "subWorkflowParam": called}
    return json.dumps(escaped(task)).replace(_REF, "\\($ref)")


def _joined(node: graph.Each, collected: str) -> str:
    """A query over the outputs of the lanes. Inside a loop, Conductor appends the number of the iteration to their names."""
    ref = json.dumps(names.lane(node.ref, ""))
    return (
        f'(.items | length) as $count | (.joined | with_entries(.key |= (split("__") | .[0]))) as $joined '
        f"| [range($count) as $i | $joined[{ref} + ($i | tostring)]] | {collected}"
    )


_RESULTS = "[.[].result]"
_RESULTS_AND_LANES = "{results: [.[].result], lanes: ([.[].workspace] | to_entries | map(.key |= tostring) | from_entries)}"


def _places(params: Mapping[str, graph.Value], at: str = "") -> Iterator[tuple[str, str]]:
    """Where the item, or a field of it, belongs in the params: a path in the params and a path in the item."""
    for name, value in params.items():
        yield from _places_in(value, f"{at}[{json.dumps(name)}]")


def _places_in(value: graph.Value, at: str) -> Iterator[tuple[str, str]]:
    match value:
        case graph.Reference(source=graph.EachItem()):
            yield f".{at}", "".join(f"[{json.dumps(step)}]" for step in value.path)
        case graph.ObjectOf():
            yield from _places(value.fields, at)
        case graph.ListOf():
            for index, one in enumerate(value.items):
                yield from _places_in(one, f"{at}[{index}]")
        case graph.Reference() | graph.Constant():
            pass
