"""The declarations of the built-in tasks, for the commands that register the tasks of a pipeline."""

from perago.builtin import names
from perago.declare import module_loader
from perago.declare.task import TaskDeclaration
from perago.pipeline.graph import Pipeline


def needed_by(declared: TaskDeclaration | Pipeline) -> list[TaskDeclaration]:
    """`perago.fork` and `perago.join`, if the pipeline or one that it calls forks writers."""
    if not isinstance(declared, Pipeline) or not declared.needs_lanes:
        return []
    return [module_loader.load(module) for module in names.MODULES]
