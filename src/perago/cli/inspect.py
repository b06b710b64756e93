"""`perago inspect`: downloads what an attempt left that failed its post checks, and says why it failed."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from perago import human_units, settings
from perago.cli import _inputs, _repository, _result_folder
from perago.lake.client import TRANSFER_TIMEOUTS, LakeFS
from perago.local_run import lake_input
from perago.operate import kept
from perago.operate.kept import KeptAttempt
from perago.terminal import console, spinner
from perago.workspace import path_mapping, scan

Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="The id of a task in Conductor; or a run (its id, the beginning of it, or last), or RUN/STEP.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR", help="A new or empty folder for the files; by default perago-inspect-TASK.", show_default=False
    ),
]


def inspect(task: Task, directory: Folder = None, as_json: _inputs.AsJson = False) -> None:
    """Download what an attempt left that failed its post checks.

    A worker with PERAGO_KEEP_FAILED=1h keeps it for that time, and the reason of the failure ends with this command. Of a run,
    the newest kept attempt is downloaded, provided that all are of one step. The folder gets the files of the whole workspace
    as the body left them. They failed their checks: do not publish them.

    Exit codes: 0 downloaded, 1 nothing is kept, or an error, 2 wrong usage.
    """
    with _repository.connected("perago inspect") as (local, both), _repository.interruptible():
        found = kept.find(both, task)
        folder = directory or Path(f"perago-inspect-{found.labels.task_id}")
        _result_folder.refuse_dangerous(folder, None, "folder")
        _download(local, found, folder)
    files = len(scan.scan(str(folder)).files)
    if as_json:
        console.write_json(_document(found, folder, files))
    else:
        _show(found, folder, files)


def _download(local: settings.Settings, found: KeptAttempt, folder: Path) -> None:
    access = local.require_lakefs()
    prefix = path_mapping.listing_prefix(found.labels.prefix)
    with (
        LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=TRANSFER_TIMEOUTS) as lake,
        spinner.Spinner() as listener,
    ):
        commit = lake.commit(found.repository, found.commit)
        _result_folder.make(folder, lambda made: lake_input.copy(lake, found.repository, commit, prefix, made, listener))


def _show(found: KeptAttempt, folder: Path, files: int) -> None:
    labels, out = found.labels, console.stdout()
    for name, value in _facts(found):
        out.print(Text.assemble((f"{name:<9} ", "bold"), console.printable(value)))
    compare = f"perago diff {found.repository}/{labels.input_ref} {found.commit}"
    out.print(Text(f"wrote {files} files to {console.printable(str(folder))}; {compare} lists what the body changed"))


def _facts(found: KeptAttempt) -> list[tuple[str, str]]:
    labels, counts = found.labels, found.counts
    left = human_units.show_seconds(max(0, round(found.name.until - time.time())))
    facts = [
        ("failed", labels.reason),
        (
            "step",
            f"{labels.reference_name} of workflow {labels.workflow_id}, attempt {labels.retry_count + 1}, task {labels.task_id}",
        ),
        ("input", f"commit {labels.input_ref} of repository {found.repository}, for branch {labels.branch}"),
        ("prefix", labels.prefix),
        ("kept", f"until {human_units.show_moment(found.name.until)} ({left} left)"),
    ]
    if counts is not None:
        facts.append(("changes", f"{counts.added} added, {counts.changed} changed, {counts.deleted} deleted"))
    return [*facts, ("left out", labels.left_out)] if labels.left_out else facts


def _document(found: KeptAttempt, folder: Path, files: int) -> dict[str, Any]:
    labels, counts = found.labels, found.counts
    return {
        "task_id": labels.task_id,
        "workflow_id": labels.workflow_id,
        "step": labels.reference_name,
        "attempt": labels.retry_count + 1,
        "reason": labels.reason,
        "repository": found.repository,
        "branch": labels.branch,
        "input_commit": labels.input_ref,
        "prefix": labels.prefix,
        "commit": found.commit,
        "kept_branch": found.name.branch,
        "kept_until": human_units.show_moment(found.name.until),
        "changes": None if counts is None else {"added": counts.added, "changed": counts.changed, "deleted": counts.deleted},
        "left_out": labels.left_out or None,
        "folder": str(folder),
        "files": files,
    }
