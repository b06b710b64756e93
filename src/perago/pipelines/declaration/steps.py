"""Adds the steps and the calls of a pipeline."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from perago.declare.task import TaskDeclaration, declaration_of
from perago.pipelines import attached, graph
from perago.pipelines.declaration import symbols
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.declaration.symbols import Symbol
from perago.pipelines.declaration.values import Converter


def step(
    declaration: Declaration,
    task: object,
    model: tuple[object, ...],
    params: Mapping[str, object],
    *,
    ref: object,
    optional: object,
) -> Symbol:
    found = declared_task(task)
    name = declaration.take_ref(ref, function_name(task))
    where = f"step {name}"
    if len(model) > 1 or (model and model[0] is not found.contract.params):
        declaration.problem(where, f"the second argument must be {found.contract.params.__name__}, the params model of the task")
    if not isinstance(optional, bool):
        declaration.problem(where, f"optional must be True or False, not {optional!r}")
    given = Converter(declaration).model_fields(renamed(params, found.contract.params), found.contract.params, f"{where}, params")
    declaration.add(graph.Step(name, found, given, optional=bool(optional)))
    result = found.contract.result
    return declaration.result(name, result | None if optional else result, optional=bool(optional))


def call(declaration: Declaration, pipeline: object, inputs: Mapping[str, object], *, ref: object) -> Symbol | None:
    called = attached.pipeline_of(pipeline)
    if called is None:
        symbols.refuse("flow.call", f"takes a function with @pipeline, not {_described(pipeline)}")
    name = declaration.take_ref(ref, function_name(pipeline))
    where = f"call {name}"
    if declaration.name in {called.name, *(one.name for one in called.called())}:
        declaration.problem(where, f"the pipeline {declaration.name!r} calls itself; use flow.repeat")
    given: dict[str, graph.Value] = {}
    if called.inputs is not None:
        given = Converter(declaration).model_fields(renamed(inputs, called.inputs), called.inputs, f"{where}, inputs")
    elif inputs:
        declaration.problem(where, f"the pipeline {called.name!r} takes no inputs, not {', '.join(inputs)}")
    declaration.add(graph.Call(name, called, given))
    return None if called.result is None else declaration.result(name, called.result)


def declared_task(task: object) -> TaskDeclaration:
    """What `@task` attached; nothing can be checked without it, so its absence ends the declaration."""
    found = declaration_of(task) if callable(task) else None
    if found is not None:
        return found
    if attached.pipeline_of(task) is not None:
        symbols.refuse(f"step {function_name(task)}", "is a pipeline; use flow.call")
    return symbols.refuse("flow.step", f"takes a function with @task, not {_described(task)}")


def renamed(given: Mapping[str, object], model: type[BaseModel], taken: Sequence[str] = ("ref", "optional")) -> dict[str, object]:
    """Parameters whose names are `taken`, because they mean something else here, are given as `ref_` and `optional_`."""
    hidden = {f"{name}_": name for name in taken if name in model.model_fields and f"{name}_" not in model.model_fields}
    return {hidden.get(name, name): value for name, value in given.items()}


def function_name(function: object) -> str:
    return str(getattr(function, "__name__", "step"))


def _described(given: object) -> str:
    if callable(given):
        return f"{function_name(given)!r}, which has none"
    return repr(given)


def conflicting(nodes: Sequence[graph.Node]) -> list[str]:
    """Names that two different tasks or two different pipelines share; Conductor would not tell them apart."""
    tasks: dict[str, TaskDeclaration] = {}
    called: dict[str, graph.Pipeline] = {}
    found: list[str] = []
    for node in graph.walk(nodes):
        if isinstance(node, graph.Step | graph.Each) and tasks.setdefault(node.task.name, node.task) is not node.task:
            found.append(
                f"the task name {node.task.name!r} is declared by {tasks[node.task.name].module} and by {node.task.module}"
            )
        elif isinstance(node, graph.Call) and called.setdefault(node.pipeline.name, node.pipeline) is not node.pipeline:
            one, other = called[node.pipeline.name].module, node.pipeline.module
            found.append(f"the pipeline name {node.pipeline.name!r} is declared by {one} and by {other}")
    return found
