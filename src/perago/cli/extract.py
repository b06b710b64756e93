"""`perago extract`: what a person may choose, handed on to `authoring` when the command runs."""

from pathlib import Path
from typing import Annotated

import typer

Module = Annotated[str, typer.Argument(metavar="MODULE", help="Dotted name, as for python -m.", show_default=False)]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE.json", help="Where to write it; folders on the way are made.", show_default=False
    ),
]


def extract(module: Module, output: Output) -> None:
    """Write the Conductor TaskDef of a task to a JSON file.

    Prints the path. Needs no server.

    Exit codes: 0 written, 1 something is wrong, 2 wrong usage.
    """
    from perago.cli import authoring  # noqa: PLC0415 - the other commands start without it

    authoring.extract(module, output)
