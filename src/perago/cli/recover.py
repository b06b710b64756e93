"""`perago recover`: what a person may choose, handed on to `operating` when the command runs."""

from typing import Annotated

import typer

Target = Annotated[
    str, typer.Argument(metavar="REPOSITORY/BRANCH", help="The lakeFS repository and the branch in it.", show_default=False)
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="COMMIT",
        help="Go to this commit of the history instead, even if accepted commits are lost.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")]


def recover(target: Target, to: To = None, yes: Yes = False) -> None:
    """Put a branch back to the newest commit that Conductor accepted.

    Shows the evidence of both servers for each commit from the head down, says what it will do and asks. The branch is moved
    as attempts move it: not while a running attempt is about to publish, and an attempt that publishes meanwhile goes first.
    Without --to, nothing is removed that Conductor accepted or may have accepted, nor a commit that Perago did not make.
    A second run finds nothing to do.

    Exit codes: 0 done or nothing to do, 1 left alone, 2 wrong usage.
    """
    from perago.cli import operating  # noqa: PLC0415 - the other commands start without it

    operating.recover(target, to, yes=yes)
