"""`perago gc` at work: a repository goes in, its staging branches and what became of each come out."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import typer
from rich.text import Text

from perago import human_units, settings
from perago.attempt import staging_gc
from perago.cli import console
from perago.conductor.client import ConductorClient
from perago.errors import SetupError
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import Repository

_TIMEOUTS = HttpTimeouts(connect=10.0, request=30.0)


def gc(repository: str, *, delete: bool, older_than: str, as_json: bool) -> None:
    bound = _bound(older_than)
    local = settings.load()
    access = local.lakefs
    if access is None:
        raise SetupError("LakeFS config is required for perago gc")
    with contextlib.ExitStack() as clients:
        lake = clients.enter_context(
            contextlib.closing(LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=_TIMEOUTS))
        )
        conductor = _conductor(local.conductor, clients)
        name = Repository(repository)
        found = staging_gc.find(lake, conductor, name, now=time.time(), older_than=bound)
        if delete:
            found = list(staging_gc.delete(lake, name, found))
    _tell(found, delete=delete, as_json=as_json, asked=conductor is not None)
    if any(finding.failure for finding in found):
        raise typer.Exit(1)


def _bound(text: str) -> float:
    try:
        return human_units.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--older-than") from error


def _conductor(access: settings.ConductorAccess | None, clients: contextlib.ExitStack) -> ConductorClient | None:
    if access is None:
        return None
    client = ConductorClient(access.url, timeout=_TIMEOUTS.request, auth_key=access.auth_key, auth_secret=access.auth_secret)
    return clients.enter_context(contextlib.closing(client))


def _tell(found: Sequence[staging_gc.Finding], *, delete: bool, as_json: bool, asked: bool) -> None:
    if as_json:
        console.write_json({"branches": [_shown(finding) for finding in found], "conductor_asked": asked})
        return
    if not asked:
        console.warning("CONDUCTOR_SERVER_URL is not set: only the age of a branch counts")
    out = console.stdout()
    for finding in found:
        verdict, why = _verdict(finding, delete=delete)
        out.print(Text(f"{verdict}: {finding.branch} ({why})"))
    left = sum(finding.orphaned is not None and not finding.is_deleted for finding in found)
    gone = sum(finding.is_deleted for finding in found)
    summary = f"{gone} deleted, {left} could not be" if delete else f"{left} to delete with --delete"
    out.print(Text(f"{len(found)} staging branches, {summary}"))


def _verdict(finding: staging_gc.Finding, *, delete: bool) -> tuple[str, str]:
    if finding.orphaned is None:
        age = "age unknown" if finding.age_seconds is None else f"{human_units.show_seconds(round(finding.age_seconds))} old"
        return "in use", age
    if finding.failure is not None:
        return "failed", finding.failure
    return ("deleted" if delete else "orphan"), finding.orphaned


def _shown(finding: staging_gc.Finding) -> dict[str, Any]:
    return {
        "branch": finding.branch,
        "workflow_id": finding.name.workflow_id,
        "task_id": finding.name.task_id,
        "retry_count": finding.name.retry_count,
        "age_seconds": finding.age_seconds,
        "orphaned": finding.orphaned,
        "deleted": finding.is_deleted,
        "failure": finding.failure,
    }
