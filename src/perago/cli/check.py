"""`perago check`: validates task modules and shows the settings."""

from collections.abc import Sequence
from typing import Any

import typer
from rich.text import Text

from perago import settings
from perago.cli import _inputs
from perago.declare.task import TaskDeclaration
from perago.errors import RuntimeConfigError, SetupError, TaskDefinitionError
from perago.terminal import console


def check(modules: _inputs.Modules, as_json: _inputs.AsJson = False) -> None:
    """Import task modules and validate their declarations.

    Prints `ok: TASK` for each, warnings, and the settings that apply here. Needs no server.

    Exit codes: 0 everything is valid, 1 something is wrong, 2 wrong usage.
    """
    declarations: list[TaskDeclaration] = []
    errors: list[SetupError] = []
    for module in modules:
        try:
            declarations.append(_inputs.load_task_quietly(module))
        except TaskDefinitionError as error:
            errors.append(error)
    local: settings.Settings | None = None
    try:
        local = _inputs.load_settings()
    except RuntimeConfigError as error:
        errors.append(error)
    if as_json:
        console.write_json(_document(declarations, errors, local))
    else:
        _show(declarations, local)
    for error in errors:
        console.error(str(error), error.code)
    if errors:
        raise typer.Exit(1)


def _document(
    declarations: Sequence[TaskDeclaration], errors: Sequence[SetupError], local: settings.Settings | None
) -> dict[str, Any]:
    return {
        "tasks": [
            {"module": task.module, "name": task.name, "workspace": task.kind.value, "warnings": list(task.warnings)}
            for task in declarations
        ],
        "errors": [str(error) for error in errors],
        "settings": None if local is None else _resolved(declarations, local),
        "conductor": None if local is None else _configured(local.conductor),
        "lakefs": None if local is None else _configured(local.lakefs),
    }


def _show(declarations: Sequence[TaskDeclaration], local: settings.Settings | None) -> None:
    out = console.stdout()
    for task in declarations:
        out.print(Text.assemble(("ok:", "bold green"), f" {task.name}"))
        for warning in task.warnings:
            console.warning(f"{task.name}: {warning}")
    if local is None:
        return
    servers = [(name, _server(access)) for name, access in (("conductor", local.conductor), ("lakefs", local.lakefs))]
    console.pairs("settings", [*_resolved(declarations, local).items(), *servers])


def _resolved(declarations: Sequence[TaskDeclaration], local: settings.Settings) -> dict[str, str]:
    """With a single module, the prefix of its worker ids is known."""
    if len(declarations) != 1:
        return local.resolved()
    return {**local.resolved(), "PERAGO_WORKER_ID_PREFIX": local.worker_id_prefix(declarations[0].module)}


def _server(access: object) -> Text:
    return Text(_configured(access), style="dim" if access is None else "green")


def _configured(access: object) -> str:
    return "not configured" if access is None else "configured"
