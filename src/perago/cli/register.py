"""`perago register`: creates or updates the TaskDefs of task modules, and the workflows of pipeline modules, in Conductor."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from perago.cli import _inputs
from perago.conductor import registration, workflow_registration
from perago.conductor.client import ConductorClient
from perago.conductor.workflow_registration import WorkflowRegistration
from perago.declare import taskdef
from perago.declare.task import TaskDeclaration
from perago.operate import submission
from perago.pipelines import compiler
from perago.pipelines.graph import Pipeline
from perago.terminal import console

Registered = registration.Registration | WorkflowRegistration

_TIMEOUT_SECONDS = 15.0
_VERDICT_STYLES = {
    registration.Verdict.CREATED: "green",
    registration.Verdict.UPDATED: "yellow",
    registration.Verdict.UNCHANGED: "dim",
}
_MAX_VALUE_LENGTH = 80


def register(modules: _inputs.Modules, as_json: _inputs.AsJson = False) -> None:
    """Create or update task and workflow definitions in Conductor.

    A pipeline brings its tasks and the pipelines that it calls; a changed workflow gets a new version. Prints created, updated or
    unchanged for each, and what an update changed. Needs CONDUCTOR_SERVER_URL.

    Exit codes: 0 registered, 1 something is wrong, 2 wrong usage.
    """
    # All modules are loaded before the first request, so that a wrong one leaves Conductor unchanged.
    declared = [_inputs.load_declared(module) for module in modules]
    tasks = {task.name: taskdef.of(task) for one in declared for task in _tasks(one)}
    called = [pipeline for one in declared if isinstance(one, Pipeline) for pipeline in (*one.called(), one)]
    workflows = {pipeline.name: compiler.workflow(pipeline) for pipeline in called}
    access = _inputs.load_settings().require_conductor("perago register")
    client = ConductorClient(access.url, timeout=_TIMEOUT_SECONDS, auth_key=access.auth_key, auth_secret=access.auth_secret)
    with contextlib.closing(client):
        registered: list[Registered] = [registration.register(client, definition) for definition in tasks.values()]
        registered += workflow_registration.register_all(client, list(workflows.values()))
    if as_json:
        console.write_json([_document(one) for one in registered])
        return
    for one in registered:
        _show(one)


def _tasks(declared: TaskDeclaration | Pipeline) -> Sequence[TaskDeclaration]:
    return submission.needed_tasks(declared) if isinstance(declared, Pipeline) else [declared]


def _document(registered: Registered) -> dict[str, Any]:
    changes = [{"field": change.field, "before": change.before, "after": change.after} for change in registered.changes]
    version = {"version": registered.version} if isinstance(registered, WorkflowRegistration) else {}
    return {"name": registered.name, "verdict": registered.verdict.value, **version, "changes": changes}


def _show(registered: Registered) -> None:
    out = console.stdout()
    version = f" version {registered.version}" if isinstance(registered, WorkflowRegistration) else ""
    out.print(Text.assemble((f"{registered.verdict}:", _VERDICT_STYLES[registered.verdict]), f" {registered.name}{version}"))
    for change in registered.changes:
        before, after = _value(change.before), _value(change.after)
        out.print(Text.assemble((f"  {change.field}: ", "cyan"), before, (" -> ", "dim"), after))


def _value(value: object) -> str:
    if value is None:
        return "(none)"
    shown = json.dumps(value, ensure_ascii=False)
    return console.printable(shown if len(shown) <= _MAX_VALUE_LENGTH else shown[:_MAX_VALUE_LENGTH] + "…")
