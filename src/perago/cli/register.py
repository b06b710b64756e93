"""`perago register`: what a person may choose, handed on to `authoring` when the command runs."""

from typing import Annotated

import typer

Modules = Annotated[
    list[str],
    typer.Argument(metavar="MODULE", help="Dotted names, as for python -m; each declares one task.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]


def register(modules: Modules, as_json: AsJson = False) -> None:
    """Create or update the TaskDefs of task modules in Conductor.

    Prints created, updated or unchanged for each task, and what an update changed. Needs CONDUCTOR_SERVER_URL.

    Exit codes: 0 Conductor has them, 1 something is wrong, 2 wrong usage.
    """
    from perago.cli import authoring  # noqa: PLC0415 - the other commands start without it

    authoring.register(modules, as_json=as_json)
