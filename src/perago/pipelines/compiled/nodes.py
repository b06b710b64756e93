"""Compiles the nodes of a pipeline, one after another, with the workspace that each leaves for the next."""

from collections.abc import Sequence

from perago.declare import human_form
from perago.pipelines import graph
from perago.pipelines import reference_names as names
from perago.pipelines.compiled import blocks as compiled_blocks
from perago.pipelines.compiled import each as compiled_each
from perago.pipelines.compiled.conductor_tasks import Compiled, Json, inline, jq, simple, task_input
from perago.pipelines.compiled.expressions import Expressions, escaped, output

_SECONDS_UNTIL = (
    "(function() { var t = String($.moment); if (!/(Z|[+-]\\d\\d:?\\d\\d)$/.test(t)) { t += 'Z'; } "
    "return Math.max(0, Math.ceil((new Date(t) - Date.now()) / 1000)) + ' seconds'; })()"
)
"""Conductor's own `until` knows minutes only, and no ISO 8601."""


def compile_nodes(nodes: Sequence[graph.Node], workspace: str, expressions: Expressions) -> Compiled:
    tasks: list[Json] = []
    for node in nodes:
        done = _compile(node, workspace, expressions)
        tasks += done.tasks
        workspace = done.workspace
    return Compiled(tasks, workspace)


def _compile(node: graph.Node, workspace: str, expressions: Expressions) -> Compiled:
    match node:
        case graph.Step():
            return _step(node, workspace, expressions)
        case graph.Fork() | graph.When() | graph.Repeat():
            return compiled_blocks.block(node, workspace, expressions, compile_nodes)
        case graph.Each():
            return compiled_each.each(node, workspace, expressions)
        case graph.Call():
            return _call(node, workspace, expressions)
        case graph.Wait():
            return Compiled(_wait(node, expressions), workspace)
        case graph.Human():
            return _human(node, workspace, expressions)


def _step(node: graph.Step, workspace: str, expressions: Expressions) -> Compiled:
    task = simple(node.task.name, node.ref, task_input(node.task, workspace, expressions.values(node.params)))
    after = output(node.ref, "workspace")
    if not node.optional:
        return Compiled([task], after if node.writes else workspace)
    task["optional"] = True
    if not node.writes:
        return Compiled([task], workspace)
    # An attempt that failed has no output.
    end = jq(names.end(node.ref), ".after // .before", {"after": after, "before": workspace})
    return Compiled([task, end], output(names.end(node.ref), "result"))


def _call(node: graph.Call, workspace: str, expressions: Expressions) -> Compiled:
    called = node.pipeline
    given = {**({"workspace": workspace} if called.has_workspace else {}), **expressions.values(node.inputs)}
    task = {
        "name": called.name,
        "taskReferenceName": node.ref,
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": called.name},
        "inputParameters": given,
    }
    return Compiled([task], output(node.ref, "workspace") if called.writes else workspace)


def _human(node: graph.Human, workspace: str, expressions: Expressions) -> Compiled:
    given = {
        **({} if node.workspace is None else {human_form.WORKSPACE: workspace}),
        human_form.QUESTION: expressions.values(node.params),
        human_form.FORM: escaped(human_form.of(node.decision, node.workspace).as_json()),
    }
    task: Json = {"name": "human", "taskReferenceName": node.ref, "type": "HUMAN", "inputParameters": given}
    return Compiled([task], output(node.ref, "workspace") if node.writes else workspace)


def _wait(node: graph.Wait, expressions: Expressions) -> list[Json]:
    if node.until is None:
        return [_waiting(node.ref, f"{node.seconds} seconds")]
    begin = inline(names.begin(node.ref), _SECONDS_UNTIL, {"moment": expressions.value(node.until)})
    return [begin, _waiting(node.ref, output(names.begin(node.ref), "result"))]


def _waiting(ref: str, duration: str) -> Json:
    return {"name": "wait", "taskReferenceName": ref, "type": "WAIT", "inputParameters": {"duration": duration}}
