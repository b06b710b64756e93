"""Import a module, found as by `python -m`, or read a task file, and return the one task or pipeline that it declares."""

from types import ModuleType
from typing import TYPE_CHECKING

from perago.declare import module_loader, module_names
from perago.declare.task import TaskDeclaration, declared_in
from perago.errors import TaskDefinitionError
from perago.pipelines.attached import pipelines_in

if TYPE_CHECKING:
    from perago.pipelines.graph import Pipeline


def load(module_name: str) -> "TaskDeclaration | Pipeline":
    """`TaskDefinitionError` if the module cannot be imported or does not declare exactly one task or one pipeline."""
    if module_names.is_task_file(module_name):
        return module_loader.load_task_file(module_name)
    module = module_loader.import_by_name(module_name)
    found = only_declared(module)
    module_loader.require_packages(module.__name__, tasks_of(found))
    return found


def only_declared(module: ModuleType) -> "TaskDeclaration | Pipeline":
    """The task or pipeline of an imported module."""
    tasks, pipelines = declared_in(vars(module)), pipelines_in(vars(module))
    if len(pipelines) == 1 and not tasks:
        return pipelines[0]
    if not pipelines and not tasks:
        what = "put @task(name=..., owner_email=...) or @pipeline(...) on one function"
        raise TaskDefinitionError(f"{module.__name__}: declares no task and no pipeline; {what}")
    if not pipelines:
        return module_loader.only_task(module)
    named = [_named("task", [one.name for one in tasks]), _named("pipeline", [one.name for one in pipelines])]
    raise TaskDefinitionError(f"{module.__name__}: declares {' and '.join(filter(None, named))}; give each a module of its own")


def tasks_of(found: "TaskDeclaration | Pipeline") -> list[TaskDeclaration]:
    """The task itself, or every task of the pipeline and of those that it calls."""
    return [found] if isinstance(found, TaskDeclaration) else list(found.tasks())


def _named(kind: str, names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(map(repr, names))
    return f"the {kind} {listed}" if len(names) == 1 else f"{len(names)} {kind}s ({listed})"
