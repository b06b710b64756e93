"""The front door: arguments go in, one command runs, an exit code comes out. Commands import what they need when they run."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from perago.cli import check, demo, dev, extract, init, register, run
from perago.errors import PeragoError

app = typer.Typer(
    name="perago",
    help="Typed Python tasks for Conductor that publish to lakeFS in a fenced transaction.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("check")(check.check)
app.command("run")(run.run)
app.command("extract")(extract.extract)
app.command("register")(register.register)
app.command("dev")(dev.dev)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(metadata.version("perago"))
        raise typer.Exit


@app.callback()
def perago(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version


def main() -> None:
    """What a person did wrong is one line and exit code 1; a traceback means a defect of Perago."""
    try:
        app()
    except PeragoError as error:
        from perago.cli import console  # noqa: PLC0415 - rich is only loaded when there is something to say

        console.error(str(error))
        sys.exit(1)
