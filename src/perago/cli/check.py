"""`perago check`: what a person may choose, handed on to `authoring` when the command runs."""

from typing import Annotated

import typer

Modules = Annotated[
    list[str],
    typer.Argument(metavar="MODULE", help="Dotted names, as for python -m; each declares one task.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]


def check(modules: Modules, as_json: AsJson = False) -> None:
    """Import task modules and say whether they are well declared.

    Prints `ok: TASK` for each, warnings, and the settings that apply here. Needs no server.

    Exit codes: 0 all well, 1 something is wrong, 2 wrong usage.
    """
    from perago.cli import authoring  # noqa: PLC0415 - the other commands start without it

    authoring.check(modules, as_json=as_json)
