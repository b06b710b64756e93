"""`perago protect`: what a person may choose, handed on to `operating` when the command runs."""

from typing import Annotated

import typer

RepositoryName = Annotated[str, typer.Argument(metavar="REPOSITORY", help="The lakeFS repository.", show_default=False)]
Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch to protect.", show_default=False)]
Remove = Annotated[bool, typer.Option("--remove", help="Uninstall the hooks.")]


def protect(repository: RepositoryName, branch: Branch, remove: Remove = False) -> None:
    """Install lakeFS hooks that refuse what does not follow the publication protocol.

    A merge into the branch has to name the head that it expects in its metadata (perago.expected_head), as publications of
    Perago do; direct commits, cherry-picks and reverts are refused. By hand: lakectl merge --meta perago.expected_head=HEAD.
    Attempts are safe from each other without the hooks; these cover people and programs that write in the same moment.

    Merges are covered at once, the others within seconds: lakeFS keeps the action files of a branch in a cache.

    The hooks are a file under _lakefs_actions/ on the branch, committed through a staging branch. No attempt removes
    that commit: let running workflows finish first, or start new ones from the new head.

    Not covered: relocations (hard reset), for which lakeFS has no hook; uploads that are not committed; merges whose source does
    not hold the file, because lakeFS reads it from the source. Tasks can neither read nor change _lakefs_actions/.

    Exit codes: 0 done or nothing to do, 1 left alone, 2 wrong usage.
    """
    from perago.cli import operating  # noqa: PLC0415 - the other commands start without it

    operating.protect(repository, branch, is_removal=remove)
