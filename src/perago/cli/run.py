"""`perago run`: what a person may choose, handed on to `rehearsal` when the command runs."""

from pathlib import Path
from typing import Annotated

import typer

Module = Annotated[str, typer.Argument(metavar="MODULE", help="Dotted name, as for python -m.", show_default=False)]
Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", metavar="DIR", help="The input: a folder, copied first and never changed.", show_default=False
    ),
]
Params = Annotated[str, typer.Option("--params", "-p", metavar="JSON|@FILE", help="The parameters as JSON, or a file of them.")]
Write = Annotated[
    Path | None,
    typer.Option("--write", metavar="DIR", help="Put what would be published into this new or empty folder.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; what the task prints goes to stderr.")]


def run(module: Module, workspace: Workspace = None, params: Params = "{}", write: Write = None, as_json: AsJson = False) -> None:
    """Run a task on a copy of a folder and show what it would publish.

    The same steps as in the worker: validate, pre checks, task, post checks, diff. Needs no server. The copy is made in the
    temporary directory (TMPDIR) and removed at the end.

    Exit codes: 0 COMPLETED, 1 it could not be run, 2 wrong usage, 3 FAILED (a retry may help), 4 FAILED_WITH_TERMINAL_ERROR.
    """
    from perago.cli import rehearsal  # noqa: PLC0415 - the other commands start without it

    rehearsal.run(rehearsal.Request(module, workspace, params, write), as_json=as_json)
