"""`perago demo`: runs the demo pipeline on servers of its own."""

from pathlib import Path
from typing import Annotated

import typer

from perago.cli import _inputs, dev
from perago.demo import scenario
from perago.dev import stack as stacks
from perago.spark import runtime
from perago.terminal import progress

Scale = Annotated[float, typer.Option(help="1 means 100,000 order lines of 10,000 customers.", min=0.001, max=1000.0)]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the servers running afterwards, until Ctrl-C.")]
Report = Annotated[Path, typer.Option(help="Where the report of the pipeline is saved.", dir_okay=False)]


def demo(scale: Scale = 1.0, keep: Keep = False, report: Report = Path("perago-demo.html")) -> None:
    """Run a Spark pipeline of six tasks on real servers, kill its worker in the middle, and show that the retry succeeds."""
    _inputs.show_warnings()
    with progress.shown() as show_progress:
        runtime.ensure(show_progress)
    with dev.running(stacks.StackOptions()) as stack:
        scenario.run(stack, scenario.DemoOptions(scale, keep, report))
