"""Used by several commands: shared option types, the settings with their warnings, and task modules."""

from typing import TYPE_CHECKING, Annotated

import typer

from perago import distribution, settings
from perago.declare import module_loader, module_names
from perago.declare.task import TaskDeclaration
from perago.errors import TaskDefinitionError
from perago.pipelines import loader
from perago.terminal import console

if TYPE_CHECKING:
    from perago.pipelines.graph import Pipeline


def _complete_module(incomplete: str) -> list[str]:
    return [name for name in module_names.in_working_directory() if name.startswith(incomplete)]


def _dotted(given: str) -> str:
    """The name of a module that was given as a file. What is neither is refused where the module is loaded."""
    try:
        return module_names.dotted(given)
    except TaskDefinitionError:
        return given


def _all_dotted(given: list[str]) -> list[str]:
    return [_dotted(one) for one in given]


def _modules_dotted(given: list[str]) -> list[str]:
    return [one if one.endswith(".json") else _dotted(one) for one in given]


Module = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="Dotted name, as for python -m, or its file; or a task file, NAME.task.toml.",
        show_default=False,
        callback=_dotted,
        autocompletion=_complete_module,
    ),
]
Modules = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE",
        help="Dotted names, as for python -m, or files, also task files, NAME.task.toml; each declares one task or pipeline.",
        show_default=False,
        callback=_all_dotted,
        autocompletion=_complete_module,
    ),
]
ModulesAndFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE|FILE.json",
        help="Modules, as dotted names or files, each with one task or pipeline; task files (NAME.task.toml); Conductor workflow "
        "definitions as .json files.",
        show_default=False,
        callback=_modules_dotted,
        autocompletion=_complete_module,
    ),
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


def load_declared(module: str) -> "TaskDeclaration | Pipeline":
    """The task or pipeline that the module declares; prints the warnings of its declaration."""
    declared = load_declared_quietly(module)
    for warning in declared.warnings:
        console.warning(f"{declared.name}: {warning}")
    return declared


def load_declared_quietly(module: str) -> "TaskDeclaration | Pipeline":
    """As `load_declared`, without the warnings. What the module prints while it is imported goes to stderr."""
    with console.stdout_to_stderr():
        return loader.load(module)


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
