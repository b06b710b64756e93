"""`perago protect`: installs or removes lakeFS hooks that enforce the publication protocol on a branch."""

from typing import Annotated

import typer
from rich.text import Text

from perago.cli import _inputs, _repository
from perago.operate import protection
from perago.terminal import console

Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch to protect.", show_default=False)]
Remove = Annotated[bool, typer.Option("--remove", help="Uninstall the hooks.")]


def protect(repository: _inputs.RepositoryName, branch: Branch, remove: Remove = False) -> None:
    """Install lakeFS hooks that refuse writes outside the protocol.

    A merge into the branch has to name the head that it expects in its metadata (perago.expected_head), as publications of
    Perago do; direct commits, cherry-picks and reverts are refused. By hand: lakectl merge --meta perago.expected_head=HEAD.
    Attempts are safe from each other without the hooks; these cover people and programs that write at the same time.

    Merges are covered at once, the others within seconds: lakeFS keeps the action files of a branch in a cache.

    The hooks are a file under _lakefs_actions/ on the branch, committed through a staging branch. No attempt removes
    that commit: let running workflows finish first, or start new ones from the new head.

    Not covered: relocations (hard reset), for which lakeFS has no hook; uploads that are not committed; merges whose source does
    not contain the file, because lakeFS reads it from the source. Tasks can neither read nor change _lakefs_actions/.

    Exit codes: 0 done or nothing to do, 1 nothing was changed, 2 wrong usage.
    """
    name, target = _repository.repository_name(repository), _repository.branch_name(branch, "BRANCH")
    with _repository.connected("perago protect") as (_, both), _repository.interruptible():
        change = protection.change(both.lake, name, target, is_removal=remove)
        out = console.stdout()
        if not change.is_needed:
            out.print(Text(f"nothing to do: {change.path} is {change.before.value} on branch {target}"))
            return
        verb = "remove" if remove else ("update" if change.before is protection.State.OUTDATED else "add")
        out.print(Text(f"{verb} {change.path} on branch {target}"))
        if not remove:
            for line in protection.action_file(target).splitlines():
                out.print(Text(f"  {line}", style="dim"))
        made = protection.apply(both, name, target, change)
        out.print(Text(f"branch {target} is at {made.id}", style="green"))
        console.warning("workflows that started before that commit are refused: start new ones from the new head")
