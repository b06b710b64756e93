"""`perago init`: the name of a directory in, a small project in it out."""

from pathlib import Path
from typing import Annotated

import typer

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty directory.")]


def init(directory: Directory) -> None:
    """Write a small project: a task, its test, sample data.

    Nothing is overwritten: DIR must not exist or be empty. Exit codes: 0 written, 1 not written, 2 wrong usage.
    """
    from perago.cli import project  # noqa: PLC0415 - commands import what they need when they run

    project.show(directory, project.create(directory))
