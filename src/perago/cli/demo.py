"""`perago demo`: runs the demo pipeline on servers of its own."""

from pathlib import Path
from typing import Annotated

import typer

from perago.cli import _inputs, dev
from perago.demo import scenario
from perago.dev import stack as stacks
from perago.spark import runtime
from perago.terminal import progress

Scale = Annotated[
    float, typer.Option(metavar="NUMBER", help="1 means 100,000 order lines of 10,000 customers.", min=0.001, max=1000.0)
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the servers running afterwards, until Ctrl-C.")]
Report = Annotated[Path, typer.Option(metavar="FILE", help="Where the report of the pipeline is saved.", dir_okay=False)]


def demo(scale: Scale = 1.0, keep: Keep = False, report: Report = Path("perago-demo.html")) -> None:
    """Run a pipeline on real servers, kill its worker, watch the retry.

    Five Spark tasks and a local one, on a Conductor and a lakeFS of their own. The worker is killed after it published and
    before it reported; the next attempt replaces what it published.
    """
    _inputs.show_warnings()
    with progress.shown() as show_progress:
        runtime.ensure(show_progress)
    with dev.running(stacks.StackOptions()) as stack:
        scenario.run(stack, scenario.DemoOptions(scale, keep, report))
