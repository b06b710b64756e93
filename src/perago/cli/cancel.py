"""`perago cancel`: ends a run."""

from typing import Annotated

import typer

from perago.cli import _inputs, _watching
from perago.operate import run_lanes, runs
from perago.terminal import console

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who read the run later.")]


def cancel(run: _watching.Run, reason: Reason = "cancelled with perago cancel") -> None:
    """End a run and the pipelines that it has called.

    Steps that run are cancelled by their workers and publish nothing more; what was published before stays. The branches of
    unfinished lanes are deleted, where lakeFS is configured.

    Exit codes: 0 cancelled, 1 error, 2 wrong usage.
    """
    local = _inputs.load_settings()
    with _watching.connected(local.require_conductor("perago cancel")) as client:
        found = runs.find(client, run)
        runs.cancel(client, found, reason)
        deleted = run_lanes.delete(local.lakefs, client, found)
    lanes = "" if not deleted else "; 1 lane branch was deleted" if deleted == 1 else f"; {deleted} lane branches were deleted"
    console.stdout().print(f"run {found} is cancelled{lanes}")
