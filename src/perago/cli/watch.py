"""`perago watch`: follows a run of a pipeline until it ends."""

from typing import Annotated

import typer

from perago.cli import _inputs, _watching
from perago.operate import runs

Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long Conductor may be away before watching ends.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document when the run has ended, for scripts.")]


def watch(run: _watching.Run, wait: Wait = _watching.PATIENCE, as_json: AsJson = False) -> None:
    """Follow a run until it ends: steps, attempts, commits, failures.

    On a terminal a table is kept up to date; in a pipe each change of state is one line. Steps of called pipelines are indented.
    Of an each with many lanes, the lanes are counted and only those that failed are shown. Phase and progress are shown for
    attempts that a worker on this machine runs.

    A restart of Conductor is waited for. Ctrl-C stops watching; the run goes on.

    Exit codes: 0 COMPLETED, 1 error, 2 wrong usage, 3 FAILED, 4 FAILED by a step that no retry can help, 5 TIMED_OUT,
    6 TERMINATED (cancelled), 130 no longer watched.
    """
    local = _inputs.load_settings()
    with _watching.connected(local.require_conductor("perago watch")) as client:
        found = runs.find(client, run)
        code = _watching.watch(client, found, local.perago_log_root, patience=wait, as_json=as_json)
    raise typer.Exit(code)
