"""`perago undo`: reverts one commit of a branch by a new publication."""

from collections import Counter
from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _history, _inputs, _repository
from perago.errors import PublishFenceError
from perago.lake.port import ChangeType
from perago.operate import evidence
from perago.operate import undo as revert
from perago.terminal import console

_NAMED = 20
_VERBS = {ChangeType.ADDED: "remove", ChangeType.CHANGED: "put back", ChangeType.REMOVED: "add again"}

Undone = Annotated[str, typer.Argument(metavar="COMMIT", help="Its id, or the beginning of it.", show_default=False)]


def undo(target: _repository.Target, commit: Undone, yes: _repository.Yes = False, as_json: _inputs.AsJson = False) -> None:
    """Revert one commit of a branch by a new publication.

    Every object that the commit changed becomes what it was before; everything else stays, and the history is not rewritten.
    Refused if later commits changed the same objects (their names are shown), if there is nothing left to undo, if the commit is
    not in the branch's history or is its first one, while the head was not accepted or is not reported yet, and while another
    command that began before moves the branch. Of a merge by hand, what it brought to the branch is reverted.

    The new commit is published as attempts publish: through a staging branch, and not while a running attempt is about to
    publish. No attempt removes it. Workflows that still hold an older commit as input are refused: start new ones from the new
    head. perago undo of the new commit takes the undo back.

    Exit codes: 0 done, 1 nothing was changed, 2 wrong usage.
    """
    repository, branch = _repository.parse_branch(target)
    _repository.ref_name(commit, "COMMIT")
    if as_json and not yes:
        raise typer.BadParameter("--json needs --yes, because nothing can be asked then", param_hint="--json")
    with _repository.connected("perago undo") as (_, both), _repository.interruptible():
        _repository.require_branch(both, repository, branch)
        both.conductor.check()
        shown = revert.plan(both, repository, branch, commit)
        if not as_json:
            console.stdout().print(_history.line(evidence.of(both, shown.commit)))
            _show(shown)
    _repository.confirm("Publish this undo?", yes=yes)
    # The answer may have taken a while, so the connections are new and the servers are asked again.
    with _repository.connected("perago undo") as (_, both), _repository.interruptible():
        wanted = revert.plan(both, repository, branch, commit)
        if wanted.head.id != shown.head.id:
            raise PublishFenceError(f"branch {branch} was left alone: it moved in the meantime; run the command again")
        made = revert.apply(both, wanted)
    if as_json:
        document = {"commit": made.id, "parent": wanted.head.id, "undone": wanted.commit.id, "objects": len(wanted.changes)}
        console.write_json(document)
        return
    console.stdout().print(Text(f"branch {branch} is at {made.id}, which undoes {wanted.commit.id}", style="green"))
    console.warning("workflows that started before that commit are refused: start new ones from the new head")


def _show(plan: revert.UndoPlan) -> None:
    out = console.stdout()
    for one in plan.changes[:_NAMED]:
        out.print(Text(f"  {_VERBS[one.type]}: {console.printable(one.path)}"))
    if len(plan.changes) > _NAMED:
        out.print(Text(f"  … and {len(plan.changes) - _NAMED} more", style="dim"))
    counts = Counter(one.type for one in plan.changes)
    out.print(Text(f"on branch {plan.branch}: " + ", ".join(f"{counts[kind]} to {verb}" for kind, verb in _VERBS.items())))
