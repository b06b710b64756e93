"""`perago gc`: what a person may choose, handed on to `collection` when the command runs."""

from typing import Annotated

import typer

RepositoryName = Annotated[str, typer.Argument(metavar="REPOSITORY", help="The lakeFS repository.", show_default=False)]
Delete = Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only listed.")]
OlderThan = Annotated[
    str, typer.Option("--older-than", metavar="AGE", help="Beyond this age a branch goes whatever Conductor says: 90m, 24h, 7d.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]


def gc(repository: RepositoryName, delete: Delete = False, older_than: OlderThan = "24h", as_json: AsJson = False) -> None:
    """List or delete the staging branches that dead workers left in a repository.

    A branch is an orphan when Conductor says that its attempt is over, or when it is older than --older-than. Nothing is deleted
    without --delete. Without CONDUCTOR_SERVER_URL only the age counts.

    Exit codes: 0 done, 1 something could not be asked or deleted, 2 wrong usage.
    """
    from perago.cli import collection  # noqa: PLC0415 - the other commands start without it

    collection.gc(repository, delete=delete, older_than=older_than, as_json=as_json)
