"""A task as a pipeline of one step, which has the task's name: its inputs are the task's params, its result is the task's."""

from perago.declare.problems import Problem, definition_error
from perago.declare.task import TaskDeclaration
from perago.pipelines import graph
from perago.pipelines.declaration import input_defaults
from perago.pipelines.declaration.model_fields import Form, fields
from perago.pipelines.declaration.state import Declaration
from perago.pipelines.reference_names import RESERVED

_OTHER = "step"


def of(task: TaskDeclaration) -> graph.Pipeline:
    """`TaskDefinitionError` for params or results that a workflow cannot have as its own."""
    params, result = task.contract.params, task.contract.result
    _require_inputs(task)
    ref = _OTHER if task.step_name in RESERVED else task.step_name
    given = {
        field.json_name: graph.Reference(graph.PipelineInput(), (field.json_name,), field.annotation)
        for field in fields(params, Form.READ).values()
    }
    returned = {
        field.json_name: graph.Reference(graph.NodeResult(ref), (field.json_name,), field.annotation)
        for field in fields(result, Form.WRITTEN).values()
    }
    return graph.Pipeline(
        name=task.name,
        owner_email=task.owner_email,
        description=task.description,
        inputs=params,
        result=result,
        nodes=(graph.Step(ref, task, given),),
        outputs=returned,
        module=task.module,
        warnings=task.warnings,
    )


def _require_inputs(task: TaskDeclaration) -> None:
    declaration = Declaration(task.name)
    input_defaults.check(declaration, task.contract.params)
    for model, form in ((task.contract.params, Form.READ), (task.contract.result, Form.WRITTEN)):
        if any(field.json_name == "workspace" for field in fields(model, form).values()):
            what = "the workspace has this name in the workflow; start the task from a pipeline, under another name"
            declaration.problems.append(Problem(f"{model.__name__}.workspace", what))
    if declaration.problems:
        raise definition_error(task.module, task.name, declaration.problems)
