"""`perago diff`: lists the objects that differ between two commits, or that a pipeline changed before a human step."""

import contextlib
from collections import Counter
from typing import Annotated, Any

import typer
from rich.text import Text

from perago.cli import _inputs, _repository
from perago.errors import SetupError
from perago.lake.port import ChangeType, ObjectDifference
from perago.model import CommitId, Repository
from perago.operate import objects, publications, servers
from perago.operate.human_tasks import waiting
from perago.terminal import console

_SIGNS = {ChangeType.ADDED: ("+", "green"), ChangeType.CHANGED: ("~", "yellow"), ChangeType.REMOVED: ("-", "red")}

Left = Annotated[
    str,
    typer.Argument(
        metavar="REPOSITORY/REF|TASK",
        help="The lakeFS repository and a branch, a tag or a commit id in it; or a human step, as perago tasks lists them.",
        show_default=False,
    ),
]
Other = Annotated[
    str, typer.Argument(metavar="[REF]", help="A branch, a tag or a commit id of the same repository.", show_default=False)
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Show at most N objects; all of them are counted.")]


def diff(left: Left, right: Other = "", limit: Limit = 200, as_json: _inputs.AsJson = False) -> None:
    """List the objects that differ between commits, or for a human step.

    Shows what has to change in the first to get the second. Of a branch, its head is compared: uncommitted changes do not count.
    With a TASK instead, shows what its pipeline changed so far: from the commit that the run began with to the one that the human
    step got.

    Exit codes: 0 done, with or without differences, 1 error, 2 wrong usage.
    """
    with contextlib.ExitStack() as closing:
        if right or "/" in left:
            both = closing.enter_context(_repository.lake_only("perago diff"))
            repository, before, after = _two_commits(both, left, right)
        else:
            _, both = closing.enter_context(_repository.connected("perago diff"))
            repository, before, after = _of_task(both, left)
        counts: Counter[ChangeType] = Counter()
        shown: list[tuple[ObjectDifference, int | None]] = []
        for one in both.lake.differences(repository, before, after):
            counts[one.type] += 1
            if len(shown) < limit:
                shown.append((one, _size_before(both, repository, before, one)))
                if not as_json:
                    console.stdout().print(_line(*shown[-1]))
    if as_json:
        console.write_json(_document(before, after, shown, counts))
        return
    if hidden := counts.total() - len(shown):
        console.stdout().print(Text(f"… and {hidden} more; show more with --limit", style="dim"))
    total = ", ".join(f"{counts[kind]} {kind}" for kind in ChangeType)
    console.stdout().print(Text(f"{total}, from {before[: publications.SHORT]} to {after[: publications.SHORT]}", style="bold"))


def _two_commits(both: servers.LakeServers, left: str, right: str) -> tuple[Repository, CommitId, CommitId]:
    if not right:
        raise typer.BadParameter("missing; name the second branch, tag or commit id", param_hint="REF")
    repository, first = _repository.parse_ref(left)
    second = _repository.ref_name(right, "REF")
    before, after = (_repository.resolve(both, repository, one).id for one in (first, second))
    return repository, before, after


def _of_task(both: servers.Servers, text: str) -> tuple[Repository, CommitId, CommitId]:
    """From the beginning of the run to the commit that the human step got."""
    task = waiting.find(both.workflows, text)
    workspace = task.read().workspace
    if workspace is None:
        raise SetupError(f"task {task.id} has no workspace: there is nothing to compare")
    start = waiting.beginning(both.workflows, task)
    if start is None:
        raise SetupError(
            f"run {task.attempt.workflow_id} began without a workspace; name its first commit: perago diff "
            f"{workspace.repository}/COMMIT {workspace.ref}"
        )
    return workspace.repository, start, workspace.ref


def _size_before(both: servers.LakeServers, repository: Repository, ref: CommitId, one: ObjectDifference) -> int | None:
    """LakeFS tells the new size of a changed object only."""
    if one.type is ChangeType.ADDED:
        return None
    if one.type is ChangeType.REMOVED:
        return one.size
    found = objects.find(both.lake, repository, ref, one.path)
    return None if found is None else found.size


def _line(one: ObjectDifference, before: int | None) -> Text:
    sign, style = _SIGNS[one.type]
    sizes = [before, None if one.type is ChangeType.REMOVED else one.size]
    text = " -> ".join(console.size(size) for size in sizes if size is not None)
    return Text.assemble((f"{sign} {console.printable(one.path)}", style), (f"  {text}", "dim"))


def _document(
    before: CommitId, after: CommitId, shown: list[tuple[ObjectDifference, int | None]], counts: Counter[ChangeType]
) -> dict[str, Any]:
    changes = [
        {
            "path": one.path,
            "type": one.type.value,
            "size_before": size,
            "size_after": None if one.type is ChangeType.REMOVED else one.size,
        }
        for one, size in shown
    ]
    totals = {kind.value: counts[kind] for kind in ChangeType}
    return {"left": before, "right": after, "changes": changes, "totals": totals, "more": counts.total() > len(shown)}
