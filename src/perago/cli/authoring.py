"""`perago check`, `extract` and `register`: module names go in; what a task author or a script wants to know comes out."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from perago import settings
from perago.cli import console, loaded
from perago.conductor import registration
from perago.conductor.client import ConductorClient
from perago.declare import taskdef
from perago.declare.task import TaskDeclaration
from perago.errors import RuntimeConfigError, SetupError, TaskDefinitionError

_TIMEOUT_SECONDS = 15.0
_VERDICT_STYLES = {
    registration.Verdict.CREATED: "green",
    registration.Verdict.UPDATED: "yellow",
    registration.Verdict.UNCHANGED: "dim",
}
_LONGEST_VALUE = 80


def check(modules: Sequence[str], *, as_json: bool) -> None:
    """Every module is looked at, also after one that is wrong."""
    declarations: list[TaskDeclaration] = []
    errors: list[SetupError] = []
    for module in modules:
        try:
            declarations.append(loaded.quietly(module))
        except TaskDefinitionError as error:
            errors.append(error)
    local: settings.Settings | None = None
    try:
        local = settings.load()
    except RuntimeConfigError as error:
        errors.append(error)
    if as_json:
        console.write_json(_checked(declarations, errors, local))
    else:
        _show_checked(declarations, local)
    for error in errors:
        console.error(str(error), error.code)
    if errors:
        raise typer.Exit(1)


def extract(module: str, output: Path) -> None:
    if output.suffix != ".json":
        raise SetupError(f"--output {output} must end in .json")
    definition = taskdef.of(loaded.task_of(module))
    _write_whole(output, json.dumps(definition, indent=2, ensure_ascii=False) + "\n")
    console.stdout().print(Text(str(output)))


def register(modules: Sequence[str], *, as_json: bool) -> None:
    """All modules are loaded before Conductor is asked anything: a wrong one leaves everything as it was."""
    wanted = [taskdef.of(loaded.task_of(module)) for module in modules]
    access = settings.load().require_conductor("perago register")
    client = ConductorClient(access.url, timeout=_TIMEOUT_SECONDS, auth_key=access.auth_key, auth_secret=access.auth_secret)
    try:
        done = [registration.register(client, definition) for definition in wanted]
    finally:
        client.close()
    if as_json:
        console.write_json([_registered(one) for one in done])
        return
    for one in done:
        _show_registered(one)


def _checked(
    declarations: Sequence[TaskDeclaration], errors: Sequence[SetupError], local: settings.Settings | None
) -> dict[str, Any]:
    return {
        "tasks": [
            {"module": one.module, "name": one.name, "workspace": one.kind.value, "warnings": list(one.warnings)}
            for one in declarations
        ],
        "errors": [str(error) for error in errors],
        "settings": None if local is None else _resolved(declarations, local),
        "conductor": None if local is None else _configured(local.conductor),
        "lakefs": None if local is None else _configured(local.lakefs),
    }


def _show_checked(declarations: Sequence[TaskDeclaration], local: settings.Settings | None) -> None:
    out = console.stdout()
    for one in declarations:
        out.print(Text.assemble(("ok:", "bold green"), f" {one.name}"))
        for warning in one.warnings:
            console.warning(f"{one.name}: {warning}")
    if local is None:
        return
    servers = [(name, _server(access)) for name, access in (("conductor", local.conductor), ("lakefs", local.lakefs))]
    console.pairs("settings", [*_resolved(declarations, local).items(), *servers])


def _resolved(declarations: Sequence[TaskDeclaration], local: settings.Settings) -> dict[str, str]:
    """With one module there is one prefix of worker ids to tell."""
    if len(declarations) != 1:
        return local.resolved()
    return {**local.resolved(), "PERAGO_WORKER_ID_PREFIX": local.worker_id_prefix(declarations[0].module)}


def _server(access: object) -> Text:
    return Text(_configured(access), style="dim" if access is None else "green")


def _configured(access: object) -> str:
    return "not configured" if access is None else "configured"


def _write_whole(output: Path, text: str) -> None:
    """Beside it first, then renamed: a reader never meets half a definition."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        beside = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(output)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write {output}: {error.strerror}") from error


def _registered(one: registration.Registration) -> dict[str, Any]:
    changes = [{"field": change.field, "before": change.before, "after": change.after} for change in one.changes]
    return {"name": one.name, "verdict": one.verdict.value, "changes": changes}


def _show_registered(one: registration.Registration) -> None:
    out = console.stdout()
    out.print(Text.assemble((f"{one.verdict}:", _VERDICT_STYLES[one.verdict]), f" {one.name}"))
    for change in one.changes:
        out.print(Text.assemble((f"  {change.field}: ", "cyan"), _side(change.before), (" -> ", "dim"), _side(change.after)))


def _side(value: object) -> str:
    if value is None:
        return "(none)"
    shown = json.dumps(value, ensure_ascii=False)
    return console.printable(shown if len(shown) <= _LONGEST_VALUE else shown[:_LONGEST_VALUE] + "…")
