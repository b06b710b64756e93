"""`perago register`: creates or updates the TaskDefs of task modules in Conductor."""

import contextlib
import json
from typing import Any

from rich.text import Text

from perago.cli import _inputs
from perago.conductor import registration
from perago.conductor.client import ConductorClient
from perago.declare import taskdef
from perago.terminal import console

_TIMEOUT_SECONDS = 15.0
_VERDICT_STYLES = {
    registration.Verdict.CREATED: "green",
    registration.Verdict.UPDATED: "yellow",
    registration.Verdict.UNCHANGED: "dim",
}
_MAX_VALUE_LENGTH = 80


def register(modules: _inputs.Modules, as_json: _inputs.AsJson = False) -> None:
    """Create or update the TaskDefs of task modules in Conductor.

    Prints created, updated or unchanged for each task, and what an update changed. Needs CONDUCTOR_SERVER_URL.

    Exit codes: 0 registered, 1 something is wrong, 2 wrong usage.
    """
    # All modules are loaded before the first request, so that a wrong one leaves Conductor unchanged.
    definitions = [taskdef.of(_inputs.load_task(module)) for module in modules]
    access = _inputs.load_settings().require_conductor("perago register")
    client = ConductorClient(access.url, timeout=_TIMEOUT_SECONDS, auth_key=access.auth_key, auth_secret=access.auth_secret)
    with contextlib.closing(client):
        registered = [registration.register(client, definition) for definition in definitions]
    if as_json:
        console.write_json([_document(one) for one in registered])
        return
    for one in registered:
        _show(one)


def _document(registered: registration.Registration) -> dict[str, Any]:
    changes = [{"field": change.field, "before": change.before, "after": change.after} for change in registered.changes]
    return {"name": registered.name, "verdict": registered.verdict.value, "changes": changes}


def _show(registered: registration.Registration) -> None:
    out = console.stdout()
    out.print(Text.assemble((f"{registered.verdict}:", _VERDICT_STYLES[registered.verdict]), f" {registered.name}"))
    for change in registered.changes:
        before, after = _value(change.before), _value(change.after)
        out.print(Text.assemble((f"  {change.field}: ", "cyan"), before, (" -> ", "dim"), after))


def _value(value: object) -> str:
    if value is None:
        return "(none)"
    shown = json.dumps(value, ensure_ascii=False)
    return console.printable(shown if len(shown) <= _MAX_VALUE_LENGTH else shown[:_MAX_VALUE_LENGTH] + "…")
