"""Used by several commands: shared option types, the settings with their warnings, and task modules."""

from typing import Annotated

import typer

from perago import distribution, settings
from perago.declare import module_loader
from perago.declare.task import TaskDeclaration
from perago.terminal import console

Module = Annotated[str, typer.Argument(metavar="MODULE", help="Dotted name, as for python -m.", show_default=False)]
Modules = Annotated[
    list[str],
    typer.Argument(metavar="MODULE", help="Dotted names, as for python -m; each declares one task.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]
RepositoryName = Annotated[str, typer.Argument(metavar="REPOSITORY", help="The lakeFS repository.", show_default=False)]


def load_settings() -> settings.Settings:
    """The settings, after `show_warnings`. `RuntimeConfigError` if a setting is wrong."""
    show_warnings()
    return settings.load()


def show_warnings() -> None:
    """Warn about unknown `PERAGO_` variables and about another distribution that overwrites Perago's files."""
    conflict = distribution.conflict()
    for line in [*settings.unknown_variables(), *([conflict] if conflict else [])]:
        console.warning(line)


def load_task(module: str) -> TaskDeclaration:
    """The task that the module declares; prints the warnings of its declaration."""
    declaration = load_task_quietly(module)
    for warning in declaration.warnings:
        console.warning(f"{declaration.name}: {warning}")
    return declaration


def load_task_quietly(module: str) -> TaskDeclaration:
    """As `load_task`, without the warnings. What the module prints while it is imported goes to stderr."""
    with console.stdout_to_stderr():
        return module_loader.load(module)
