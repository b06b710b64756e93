"""A module name comes in, its task leaves; what the declaration warns of is said on the way."""

from perago.cli import console
from perago.declare import loading
from perago.declare.task import TaskDeclaration


def task_of(module: str) -> TaskDeclaration:
    declaration = loading.load(module)
    for warning in declaration.warnings:
        console.warning(f"{declaration.name}: {warning}")
    return declaration
