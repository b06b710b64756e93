"""The front door: arguments go in, one command runs, an exit code comes out. Commands import what they need when they run."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from perago.cli import check, demo, dev, doctor, extract, gc, init, protect, recover, register, run, start, status
from perago.errors import PeragoError

INTERRUPTED = 130
app = typer.Typer(
    name="perago",
    help="Typed Python tasks for Conductor that publish to lakeFS in a fenced transaction.",
    epilog="Errors are one line on stderr. Exit codes: 0 well, 1 error, 2 wrong usage; some commands have more, see their help.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("check")(check.check)
app.command("run")(run.run)
app.command("extract")(extract.extract)
app.command("register")(register.register)
app.command("start")(start.start)
app.command("status")(status.status)
app.command("gc")(gc.gc)
app.command("doctor")(doctor.doctor)
app.command("recover")(recover.recover)
app.command("protect")(protect.protect)
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
    """What a person did wrong is one line, exit code 1 or, for the command line itself, 2; a traceback is a defect of Perago."""
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="perago", standalone_mode=False)
    except PeragoError as error:
        code = _refuse(str(error), 1, error.code)
    except typer.TyperException as error:
        code = _refuse(_usage_error(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        # Before the command took over the signal, or where it leaves it to Python: as a shell has it, and no traceback.
        code = INTERRUPTED
    sys.exit(code)


def _refuse(message: str, code: int, error_code: str = "") -> int:
    from perago.cli import console  # noqa: PLC0415 - rich is only loaded when there is something to say

    console.error(message, error_code)
    return code


def _usage_error(error: typer.TyperException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "perago")
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"
