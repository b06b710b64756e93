"""`perago runs`: lists the newest runs of pipelines."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perago.cli import _inputs, _run_board, _watching
from perago.conductor.workflows import RunSummary
from perago.terminal import console

MOST = 1000
_CUT = 60
STATUSES = ("RUNNING", "PAUSED", "COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED")

PipelineName = Annotated[str, typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline.", show_default=False)]
Status = Annotated[
    str,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only runs that are {', '.join(STATUSES[:-1])} or {STATUSES[-1]}.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="Show at most N runs.")]


def runs(pipeline: PipelineName = "", status: Status = "", limit: Limit = 20, as_json: _inputs.AsJson = False) -> None:
    """List the newest runs, of all pipelines or of one.

    Runs that another run called are not listed; perago watch shows them with it. Conductor's search index is asked, which may be
    a second behind.

    Exit codes: 0 done, 1 error, 2 wrong usage.
    """
    wanted = status.upper()
    if wanted and wanted not in STATUSES:
        raise typer.BadParameter(f"{status} is not one of {', '.join(STATUSES)}", param_hint="--status")
    access = _inputs.load_settings().require_conductor("perago runs")
    with _watching.connected(access) as client:
        found = client.search(limit, name=pipeline, status=wanted)
    if as_json:
        console.write_json({"runs": [_document(one) for one in found]})
    elif not found:
        console.stdout().print("no runs")
    else:
        _show(found)


def _document(run: RunSummary) -> dict[str, object]:
    return {
        "run": run.id,
        "pipeline": run.name,
        "version": run.version,
        "status": run.status,
        "started": _watching.moment(run.started),
        "ended": _watching.moment(run.ended),
        "reason": run.reason or None,
    }


def _show(found: Sequence[RunSummary]) -> None:
    out = console.stdout()
    if not out.is_terminal:
        for run in found:
            out.print(Text(f"{run.id}  {_watching.moment(run.started)}  {run.status:<10}  {console.printable(run.name)}"))
        return
    table = Table("run", "started (UTC)", "status", "pipeline", "reason")
    for run in found:
        status = Text(run.status, style=_run_board.style(run.status))
        reason = console.printable(run.reason[:_CUT])
        table.add_row(run.id, _watching.moment(run.started), status, console.printable(run.name), reason)
    out.print(table)
