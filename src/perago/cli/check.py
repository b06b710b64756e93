"""`perago check`: validates task and pipeline modules, draws the pipelines, and shows the settings."""

from collections.abc import Sequence
from typing import Any

import typer
from rich.text import Text

from perago import settings
from perago.cli import _inputs
from perago.declare.task import TaskDeclaration
from perago.errors import RuntimeConfigError, SetupError, TaskDefinitionError
from perago.pipeline import tree
from perago.pipeline.graph import Pipeline
from perago.terminal import console

Declared = TaskDeclaration | Pipeline


def check(modules: _inputs.Modules, as_json: _inputs.AsJson = False) -> None:
    """Validate the declarations of task and pipeline modules.

    Prints `ok: NAME` or the error of each, a pipeline as a tree, warnings, and then the settings that apply here.
    Needs no server.

    Exit codes: 0 everything is valid, 1 something is wrong, 2 wrong usage.
    """
    found = [_load(module) for module in modules]
    local = _load_settings()
    verdicts = [*found, local] if isinstance(local, SetupError) else found
    errors = [one for one in verdicts if isinstance(one, SetupError)]
    declarations = [one for one in verdicts if isinstance(one, TaskDeclaration | Pipeline)]
    usable = None if isinstance(local, SetupError) else local
    if as_json:
        console.write_json(_document(declarations, errors, usable))
    for verdict in errors if as_json else verdicts:
        _show(verdict)
    if usable is not None and not as_json:
        _show_settings(declarations, usable)
    if errors:
        raise typer.Exit(1)


def _load(module: str) -> Declared | SetupError:
    try:
        return _inputs.load_declared_quietly(module)
    except TaskDefinitionError as error:
        return error


def _load_settings() -> settings.Settings | SetupError:
    try:
        return _inputs.load_settings()
    except RuntimeConfigError as error:
        return error


def _document(declarations: Sequence[Declared], errors: Sequence[SetupError], local: settings.Settings | None) -> dict[str, Any]:
    return {
        "tasks": [
            {"module": task.module, "name": task.name, "workspace": task.kind.value, "warnings": list(task.warnings)}
            for task in declarations
            if isinstance(task, TaskDeclaration)
        ],
        "pipelines": [_pipeline_document(one) for one in declarations if isinstance(one, Pipeline)],
        "errors": [str(error) for error in errors],
        "settings": None if local is None else _resolved(declarations, local),
        "conductor": None if local is None else _configured(local.conductor),
        "lakefs": None if local is None else _configured(local.lakefs),
    }


def _pipeline_document(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "module": pipeline.module,
        "name": pipeline.name,
        "workspace": pipeline.has_workspace,
        "tasks": [task.name for task in pipeline.tasks()],
        "warnings": list(pipeline.warnings),
    }


def _show(verdict: Declared | SetupError) -> None:
    if isinstance(verdict, SetupError):
        console.error(str(verdict), verdict.code)
        return
    console.stdout().print(Text.assemble(("ok:", "bold green"), f" {verdict.name}"))
    if isinstance(verdict, Pipeline):
        for line in tree.lines(verdict)[1:]:
            console.stdout().print(Text(line), soft_wrap=True)
    for warning in verdict.warnings:
        console.warning(f"{verdict.name}: {warning}")


def _show_settings(declarations: Sequence[Declared], local: settings.Settings) -> None:
    servers = [(name, _server(access)) for name, access in (("conductor", local.conductor), ("lakefs", local.lakefs))]
    console.pairs("settings", [*_resolved(declarations, local).items(), *servers])


def _resolved(declarations: Sequence[Declared], local: settings.Settings) -> dict[str, str]:
    """With a single module, the prefix of its worker ids is known."""
    if len(declarations) != 1:
        return local.resolved()
    return {**local.resolved(), "PERAGO_WORKER_ID_PREFIX": local.worker_id_prefix(declarations[0].module)}


def _server(access: object) -> Text:
    return Text(_configured(access), style="dim" if access is None else "green")


def _configured(access: object) -> str:
    return "not configured" if access is None else "configured"
