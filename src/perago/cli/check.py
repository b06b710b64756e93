"""`perago check`: validates task and pipeline modules and workflow definitions, draws pipelines, and shows the settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from perago import settings
from perago.cli import _inputs
from perago.declare import module_names
from perago.declare.task import TaskDeclaration
from perago.errors import RuntimeConfigError, SetupError, TaskDefinitionError
from perago.pipelines import loader
from perago.terminal import console

if TYPE_CHECKING:
    from perago.cli._workflow_files import CheckedFile
    from perago.pipelines.graph import Pipeline

    Declared = TaskDeclaration | Pipeline

_WORKFLOW_FILE = ".json"


def check(given: _inputs.ModulesAndFiles, as_json: _inputs.AsJson = False) -> None:
    """Validate task and pipeline modules, and workflow definitions.

    Imports the modules and prints `ok: NAME` or the error of each, a pipeline as a tree, warnings, and then the settings that
    apply here. Of a workflow definition it prints what is wrong with workspaces and references, and with the inputs of the
    modules' tasks. A task that takes a workspace and is not among the modules counts as a writer. Needs no server.

    Exit codes: 0 everything is valid, 1 something is wrong, 2 wrong usage.
    """
    files = [one for one in given if one.endswith(_WORKFLOW_FILE)]
    modules = [one for one in given if not one.endswith(_WORKFLOW_FILE)]
    found = [_load(module) for module in modules]
    local = _load_settings() if modules else None
    verdicts = [*found, local] if isinstance(local, SetupError) else found
    errors = [one for one in verdicts if isinstance(one, SetupError)]
    declarations = [one for one in found if not isinstance(one, SetupError)]
    usable = None if isinstance(local, SetupError) else local
    workflows = _check_files(files, declarations)
    if as_json:
        console.write_json(_document(declarations, errors, workflows, usable))
    for verdict in errors if as_json else verdicts:
        _show(verdict)
    for workflow in workflows:
        workflow.show_errors() if as_json else workflow.show()
    if usable is not None and not as_json:
        _show_settings(declarations, usable)
    if errors or any(workflow.errors() for workflow in workflows):
        raise typer.Exit(1)


def _check_files(files: Sequence[str], declarations: "Sequence[Declared]") -> "Sequence[CheckedFile]":
    if not files:
        return []
    from perago.cli import _workflow_files  # noqa: PLC0415 - a task is checked quicker without it

    return _workflow_files.check_files(files, [task for one in declarations for task in loader.tasks_of(one)])


def _load(module: str) -> "Declared | SetupError":
    try:
        return _inputs.load_declared_quietly(module)
    except TaskDefinitionError as error:
        return error


def _load_settings() -> settings.Settings | SetupError:
    try:
        return _inputs.load_settings()
    except RuntimeConfigError as error:
        return error


def _document(
    declarations: "Sequence[Declared]",
    errors: Sequence[SetupError],
    workflows: "Sequence[CheckedFile]",
    local: settings.Settings | None,
) -> dict[str, Any]:
    return {
        "tasks": [
            {"module": task.module, "name": task.name, "workspace": task.kind.value, "warnings": list(task.warnings)}
            for task in declarations
            if isinstance(task, TaskDeclaration)
        ],
        "pipelines": [_pipeline_document(one) for one in declarations if not isinstance(one, TaskDeclaration)],
        "workflows": [one for workflow in workflows for one in workflow.document()],
        "errors": [*(str(error) for error in errors), *(line for workflow in workflows for line in workflow.errors())],
        "settings": None if local is None else _resolved(declarations, local),
        "conductor": None if local is None else _configured(local.conductor),
        "lakefs": None if local is None else _configured(local.lakefs),
    }


def _pipeline_document(pipeline: "Pipeline") -> dict[str, Any]:
    return {
        "module": pipeline.module,
        "name": pipeline.name,
        "workspace": pipeline.has_workspace,
        "tasks": [task.name for task in pipeline.tasks()],
        "warnings": list(pipeline.warnings),
    }


def _show(verdict: "Declared | SetupError") -> None:
    if isinstance(verdict, SetupError):
        console.error(str(verdict), verdict.code)
        return
    console.line(("ok:", "bold green"), f" {verdict.name}")
    if not isinstance(verdict, TaskDeclaration):
        from perago.pipelines import tree  # noqa: PLC0415 - as above

        for line in tree.lines(verdict)[1:]:
            console.line(line)
    for warning in verdict.warnings:
        console.warning(f"{verdict.name}: {warning}")


def _show_settings(declarations: "Sequence[Declared]", local: settings.Settings) -> None:
    servers = [(name, _server(access)) for name, access in (("conductor", local.conductor), ("lakefs", local.lakefs))]
    console.pairs("settings", [*_resolved(declarations, local).items(), *servers])


def _resolved(declarations: "Sequence[Declared]", local: settings.Settings) -> dict[str, str]:
    """With a single module, the prefix of its worker ids is known."""
    if len(declarations) != 1:
        return local.resolved()
    return {**local.resolved(), "PERAGO_WORKER_ID_PREFIX": local.worker_id_prefix(module_names.label(declarations[0].module))}


def _server(access: object) -> console.Part:
    return _configured(access), "dim" if access is None else "green"


def _configured(access: object) -> str:
    return "not configured" if access is None else "configured"
