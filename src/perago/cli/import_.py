"""`perago import`: publishes a folder to a branch."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from perago import events
from perago.cli import _inputs, _repository
from perago.errors import SetupError
from perago.model import BranchName, Repository
from perago.operate import import_folder
from perago.operate.import_folder import ImportPlan, ImportTarget
from perago.operate.servers import Servers
from perago.terminal import console
from perago.workspace import path_mapping

_HINT = "REPOSITORY[/BRANCH][/PREFIX]"
_PARTS = 3

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder. It is only read.", show_default=False)]
Destination = Annotated[
    str,
    typer.Argument(metavar=_HINT, help="Where to: BRANCH is the repository's default branch if left out.", show_default=False),
]
Create = Annotated[bool, typer.Option("--create", help="Make the repository or the branch if it does not exist.")]
Namespace = Annotated[
    str,
    typer.Option(
        "--storage-namespace",
        metavar="URL",
        help="Where a new repository keeps its objects, such as s3://bucket/name.",
        show_default=False,
    ),
]
Delete = Annotated[bool, typer.Option("--delete", help="Also delete the objects that the folder does not have.")]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The message of the commit.", show_default=False)]


def import_(
    folder: Folder,
    target: Destination,
    create: Create = False,
    storage_namespace: Namespace = "",
    delete: Delete = False,
    message: Message = "",
    as_json: _inputs.AsJson = False,
) -> None:
    """Publish a folder to a branch: upload what differs, commit.

    Files whose size and checksum are those of their objects are not uploaded. Objects that the folder does not have stay, unless
    --delete is given. If nothing differs, no commit is made. Symlinks and special files are refused, as in a workspace.

    The commit is published as attempts publish: through a staging branch, not on a head that Conductor did not accept, and not
    while a running attempt is about to publish. No attempt removes it; perago undo takes it back. Workflows that hold an older
    commit as input are refused afterwards: import before you submit.

    Exit codes: 0 done, 1 nothing was published, 2 wrong usage.
    """
    repository, branch, prefix = _parse(target)
    if not folder.is_dir():
        raise SetupError(f"{folder} is not a folder")
    if storage_namespace and not create:
        raise typer.BadParameter("only a new repository takes it; add --create", param_hint="--storage-namespace")
    with _repository.connected("perago import") as (_, both), _repository.interruptible():
        both.conductor.check()
        made_repository, made_branch, branch = _make(both, repository, branch, create=create, namespace=storage_namespace)
        place = ImportTarget(repository, branch, prefix)
        plan = import_folder.plan(both, place, folder.resolve(), delete=delete)
        commit = plan.head.id
        if not plan.changes.is_empty:
            with _progress(plan) as emit:
                commit = import_folder.apply(both, plan, message or _message(plan), emit).id
    counts = plan.changes.counts
    if as_json:
        created = "repository" if made_repository else "branch" if made_branch else None
        place_json = {"repository": repository, "branch": branch, "prefix": prefix, "created": created}
        done = {"commit": commit, "parent": None if plan.changes.is_empty else plan.head.id}
        amount = {"added": counts.added, "changed": counts.changed, "deleted": counts.deleted, "bytes": counts.bytes}
        console.write_json({**done, **place_json, **amount, "kept": plan.kept})
        return
    _show(plan, commit)


def _parse(text: str) -> tuple[Repository, BranchName | None, str]:
    parts = text.removeprefix("lakefs://").split("/", _PARTS - 1)
    repository, branch, prefix = (*parts, *[""] * (_PARTS - len(parts)))
    name = _repository.branch_name(branch, _HINT) if branch else None
    return _repository.repository_name(repository), name, path_mapping.listing_prefix(prefix)


def _make(
    both: Servers, repository: Repository, branch: BranchName | None, *, create: bool, namespace: str
) -> tuple[bool, bool, BranchName]:
    """Whether repository and branch were created, and the branch."""
    first = branch or import_folder.DEFAULT_BRANCH
    made = import_folder.require_repository(both, repository, create=create, branch=first, namespace=namespace)
    if branch is None:
        branch = both.settings.repository(repository).default_branch
    return made, import_folder.require_branch(both, repository, branch, create=create), branch


def _message(plan: ImportPlan) -> str:
    return f"perago import: {plan.folder.name}"


def _show(plan: ImportPlan, commit: str) -> None:
    out = console.stdout()
    counts = plan.changes.counts
    stay = f"; {plan.kept} objects that the folder does not have stay" if plan.kept else ""
    if plan.changes.is_empty:
        out.print(Text(f"nothing differs{stay}: {plan.target} is at {commit}"))
        return
    size = console.size(plan.changes.upload_bytes)
    amount = f"{counts.added} added, {counts.changed} changed, {counts.deleted} deleted, {size} uploaded"
    out.print(Text(f"{amount}{stay}"))
    out.print(Text(f"{plan.target} is at {commit}", style="green"))


@contextlib.contextmanager
def _progress(plan: ImportPlan) -> Generator[events.Emit]:
    """A bar on a terminal, one line in a pipe."""
    counts = plan.changes.counts
    screen = console.stderr()
    files = counts.added + counts.changed
    title = f"uploading {files} {'file' if files == 1 else 'files'}"
    if not screen.is_terminal:
        screen.print(Text(f"{title}, {console.size(plan.changes.upload_bytes)}"))
        yield events.ignore
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=screen, transient=True) as bars:
        bar = bars.add_task(title, total=counts.bytes)

        def emit(event: events.Event) -> None:
            if isinstance(event, events.Progress):
                bars.update(bar, completed=event.bytes)

        yield emit
