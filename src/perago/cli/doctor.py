"""`perago doctor`: what a person may choose, handed on to `operating` when the command runs."""

from typing import Annotated

import typer

Target = Annotated[
    str,
    typer.Argument(
        metavar="REPOSITORY[/BRANCH]",
        help="The lakeFS repository; without a branch, every branch that Perago wrote to lately.",
        show_default=False,
    ),
]
Publication = Annotated[
    bool, typer.Option("--publication", help="Check instead that the publication protocol holds on this lakeFS.")
]
Base = Annotated[
    str, typer.Option("--base", metavar="BRANCH", help="With --publication: the branch that test branches start from.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]


def doctor(target: Target, publication: Publication = False, base: Base = "main", as_json: AsJson = False) -> None:
    """Find what keeps workflows from publishing, and say which command fixes it.

    Looks at both servers, the clocks, the permissions (tried out on hidden branches of its own), branch protection, hooks,
    staging branches and their owners, heads that Conductor did not accept, accepted commits that the branch does not hold,
    histories that no retry can pass, and uncommitted changes. Changes nothing else and shows no secrets.

    With --publication, attempts are run on branches of its own, with a Conductor in memory, to show that this lakeFS does what
    the publication protocol rests on.

    Exit codes: 0 nothing to do, 1 something needs action (or an error), 2 wrong usage.
    """
    from perago.cli import operating  # noqa: PLC0415 - the other commands start without it

    if publication:
        operating.check_publication(target, base, as_json=as_json)
    else:
        operating.doctor(target, as_json=as_json)
