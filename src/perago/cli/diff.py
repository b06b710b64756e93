"""`perago diff`: lists the objects that differ between two commits."""

from collections import Counter
from typing import Annotated, Any

import typer
from rich.text import Text

from perago.cli import _inputs, _repository
from perago.lake.port import ChangeType, ObjectDifference
from perago.model import CommitId, Repository
from perago.operate import objects, publications, servers
from perago.terminal import console

_SIGNS = {ChangeType.ADDED: ("+", "green"), ChangeType.CHANGED: ("~", "yellow"), ChangeType.REMOVED: ("-", "red")}

Other = Annotated[
    str, typer.Argument(metavar="REF", help="A branch, a tag or a commit id of the same repository.", show_default=False)
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Show at most N objects; all of them are counted.")]


def diff(left: _repository.Ref, right: Other, limit: Limit = 200, as_json: _inputs.AsJson = False) -> None:
    """List the objects that differ between two commits, with sizes.

    Shows what has to change in the first to get the second. Of a branch, its head is compared: uncommitted changes do not count.

    Exit codes: 0 done, with or without differences, 1 error, 2 wrong usage.
    """
    repository, first = _repository.parse_ref(left)
    second = _repository.ref_name(right, "REF")
    with _repository.lake_only("perago diff") as both:
        before = _repository.resolve(both, repository, first).id
        after = _repository.resolve(both, repository, second).id
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
