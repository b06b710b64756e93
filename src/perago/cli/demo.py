"""`perago demo`: what a person may choose, handed on to `demonstration` when the command runs."""

from pathlib import Path
from typing import Annotated

import typer

Scale = Annotated[float, typer.Option(help="1 means 100,000 order lines of 10,000 customers.", min=0.001, max=1000.0)]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the servers running afterwards, until Ctrl-C.")]
Report = Annotated[Path, typer.Option(help="Where the report of the pipeline is saved.", dir_okay=False)]


def demo(scale: Scale = 1.0, keep: Keep = False, report: Report = Path("perago-demo.html")) -> None:
    """Run a Spark pipeline of six tasks on real servers, kill its worker in the middle, and show what comes of it."""
    from perago.demo import scenario  # noqa: PLC0415 - the other commands start without it

    scenario.run(scenario.Wanted(scale, keep, report))
