"""A module name comes in, its task leaves. What the module prints meanwhile goes to stderr: stdout is the command's."""

from perago.cli import console
from perago.declare import module_loader
from perago.declare.task import TaskDeclaration


def quietly(module: str) -> TaskDeclaration:
    with console.prints_to_stderr():
        return module_loader.load(module)


def task_of(module: str) -> TaskDeclaration:
    """What the declaration warns of is said on the way."""
    declaration = quietly(module)
    for warning in declaration.warnings:
        console.warning(f"{declaration.name}: {warning}")
    return declaration
