"""`perago gc`: lists or deletes what is left over: staging branches, branches of lanes, kept attempts whose time is over."""

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from perago import human_units, settings
from perago.attempt import branch_gc, kept_gc, staging_gc
from perago.builtin import lane_gc
from perago.cli import _inputs
from perago.conductor.client import ConductorClient
from perago.errors import SetupError
from perago.http.request import HttpTimeouts
from perago.lake.client import LakeFS
from perago.model import Repository
from perago.protocol.kept_names import KeptName
from perago.protocol.lane_names import LaneName
from perago.terminal import console

Finding = staging_gc.StagingFinding | lane_gc.LaneFinding | kept_gc.KeptFinding
_TIMEOUTS = HttpTimeouts(connect=10.0, request=30.0)

Delete = Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only listed.")]
OlderThan = Annotated[
    str,
    typer.Option("--older-than", metavar="AGE", help="Older branches are always orphans; for example 90m, 24h, 7d."),
]


def gc(
    repository: _inputs.RepositoryName, delete: Delete = False, older_than: OlderThan = "24h", as_json: _inputs.AsJson = False
) -> None:
    """List or delete the staging branches that dead workers left behind.

    A branch is an orphan when Conductor reports that its attempt has ended, or when it is older than --older-than. Branches of
    lanes are listed too; they are orphans when their workflow has ended. So are attempts that PERAGO_KEEP_FAILED keeps, which
    are orphans when their time is over. Nothing is deleted without --delete. Without CONDUCTOR_SERVER_URL only the age counts.

    Exit codes: 0 done, 1 a request or a deletion failed, 2 wrong usage.
    """
    max_age = _age(older_than)
    local = _inputs.load_settings()
    access = local.lakefs
    if access is None:
        raise SetupError(settings.missing_lakefs("perago gc"))
    with contextlib.ExitStack() as clients:
        lake = clients.enter_context(
            contextlib.closing(LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=_TIMEOUTS))
        )
        conductor = _conductor(local.conductor, clients)
        name = Repository(repository)
        staged = staging_gc.find(lake, conductor, name, now=time.time(), older_than=max_age)
        lanes = lane_gc.find(lake, conductor, name, now=time.time(), older_than=max_age)
        kept = kept_gc.find(lake, name, now=time.time())
        if delete:
            staged, lanes = list(branch_gc.delete(lake, name, staged)), list(branch_gc.delete(lake, name, lanes))
            kept = list(branch_gc.delete(lake, name, kept))
        found: list[Finding] = [*staged, *lanes, *kept]
    if as_json:
        branches = [_document(finding) for finding in found]
        console.write_json({"branches": branches, "conductor_asked": conductor is not None})
    else:
        _show(found, delete=delete, conductor_asked=conductor is not None)
    if any(finding.failure for finding in found):
        raise typer.Exit(1)


def _age(text: str) -> float:
    try:
        return human_units.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--older-than") from error


def _conductor(access: settings.ConductorAccess | None, clients: contextlib.ExitStack) -> ConductorClient | None:
    if access is None:
        return None
    client = ConductorClient(access.url, timeout=_TIMEOUTS.request, auth_key=access.auth_key, auth_secret=access.auth_secret)
    return clients.enter_context(contextlib.closing(client))


def _show(found: Sequence[Finding], *, delete: bool, conductor_asked: bool) -> None:
    if not conductor_asked:
        console.warning("CONDUCTOR_SERVER_URL is not set: only the age of a branch counts")
    out = console.stdout()
    for finding in found:
        verdict, reason = _verdict(finding, delete=delete)
        out.print(Text(f"{verdict}: {finding.branch} ({reason})"))
    left = sum(finding.orphaned is not None and not finding.is_deleted for finding in found)
    gone = sum(finding.is_deleted for finding in found)
    summary = f"{gone} deleted, {left} failed" if delete else f"{left} to delete with --delete"
    out.print(Text(f"{_counted(found)}, {summary}"))


def _counted(found: Sequence[Finding]) -> str:
    lanes = sum(isinstance(finding.name, LaneName) for finding in found)
    kept = sum(isinstance(finding.name, KeptName) for finding in found)
    others = [f"{lanes} branches of lanes"] if lanes else []
    others += [f"{kept} kept attempts"] if kept else []
    return " and ".join([f"{len(found) - lanes - kept} staging branches", *others])


def _verdict(finding: Finding, *, delete: bool) -> tuple[str, str]:
    if finding.orphaned is None and isinstance(finding.name, KeptName):
        return "kept", f"until {human_units.show_moment(finding.name.until)}; perago inspect {finding.name.task_id} downloads it"
    if finding.orphaned is None:
        age = "age unknown" if finding.age_seconds is None else f"{human_units.show_seconds(round(finding.age_seconds))} old"
        return "in use", age
    if finding.failure is not None:
        return "failed", finding.failure
    return ("deleted" if delete else "orphan"), finding.orphaned


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "branch": finding.branch,
        "workflow_id": finding.name.workflow_id,
        "task_id": None if isinstance(finding.name, LaneName) else finding.name.task_id,
        "retry_count": finding.name.retry_count,
        "age_seconds": finding.age_seconds,
        "kept_until": human_units.show_moment(finding.name.until) if isinstance(finding.name, KeptName) else None,
        "orphaned": finding.orphaned,
        "deleted": finding.is_deleted,
        "failure": finding.failure,
    }
