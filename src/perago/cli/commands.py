"""The commands and their help: runs one of them and returns its exit code.

A command's module is imported only when the command is used, so that `perago --help` and each command start quickly.
"""

import importlib
import keyword
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from perago import distribution
from perago.cli import _plain_help
from perago.cli.main import INTERRUPTED
from perago.errors import ConductorUnavailable, LakeUnavailable, PeragoError
from perago.terminal import console

COMMANDS = {
    "init": "Write a small project: two tasks, a pipeline, tests, sample data.",
    "check": "Validate task and pipeline modules, and workflow definitions.",
    "run": "Run a task or a pipeline on a copy of a folder; show what changes.",
    "extract": "Write the TaskDef or workflow that a module declares to a file.",
    "register": "Create or update task and workflow definitions in Conductor.",
    "start": "Run the worker: take tasks from Conductor until it is stopped.",
    "import": "Publish a folder to a branch: upload what differs, commit.",
    "submit": "Start a run of a pipeline or of a task on a branch.",
    "watch": "Follow a run until it ends: steps, attempts, commits, failures.",
    "runs": "List the newest runs, of all pipelines or of one.",
    "pause": "Stop a run from starting further steps, until perago resume.",
    "resume": "Let a paused run go on, with the pipelines that it has called.",
    "retry": "Run the step again that ended a run, and what follows it.",
    "inspect": "Download what an attempt left that failed its post checks.",
    "cancel": "End a run and the pipelines that it has called.",
    "tasks": "List the human steps that wait for a person.",
    "checkout": "Download the files of a human step into a folder.",
    "publish": "Publish the edited folder of a human step and answer it.",
    "approve": "Answer a human step and leave its files as they are.",
    "reject": "Fail a human step, and with it the run.",
    "status": "Show the workers on this machine that log under PERAGO_LOG_ROOT.",
    "log": "List the publications of a branch, and which Conductor accepted.",
    "diff": "List the objects that differ between commits, or for a human step.",
    "blame": "Tell which publication, workflow and step wrote an object.",
    "undo": "Revert one commit of a branch by a new publication.",
    "gc": "List or delete the staging branches that dead workers left behind.",
    "doctor": "Find out why workflows cannot publish, and how to fix it.",
    "recover": "Move a branch back to the newest commit that Conductor accepted.",
    "protect": "Install lakeFS hooks that refuse writes outside the protocol.",
    "certify": "Check that a worker follows the publication protocol.",
    "dev": "Run a real Conductor and a real lakeFS here; Ctrl-C stops both.",
    "demo": "Run an example on real servers and kill its workers.",
}
"""Each command and the first line of its help. The command is the function of that name in the module of that name."""


def python_name(command: str) -> str:
    """The name of the command's function and module: `import_`, because Python reserves `import`."""
    return f"{command}_" if keyword.iskeyword(command) else command


class LazyCommands(Mapping[str, Any]):
    """The commands by name. Looking one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        written = python_name(name)
        function = getattr(importlib.import_module(f"perago.cli.{written}"), written)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=_plain_help.PlainCommand, context_settings=_plain_help.HELP_OPTIONS)(function)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """A group whose list of commands needs none of their modules."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = cast("dict[str, Any]", LazyCommands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base class has it
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as the base class has it
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Completes names of commands without their modules. The process ends afterwards."""
        self.commands = {name: TyperCommand(name, short_help=summary) for name, summary in COMMANDS.items()}
        return super().shell_complete(ctx, incomplete)


app = typer.Typer(
    name="perago",
    cls=LazyGroup,
    help="Typed Python tasks for Conductor that publish to lakeFS in a fenced transaction.",
    epilog="Errors are one line on stderr. Exit codes: 0 success, 1 error, 2 wrong usage; see the help of a command for more.",
    context_settings=_plain_help.HELP_OPTIONS,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(distribution.version())
        raise typer.Exit


@app.callback()
def perago(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version


def run(arguments: list[str]) -> int:
    """A user's mistake is one line, with exit code 1 or, for wrong usage, 2."""
    try:
        return app(arguments, prog_name="perago", standalone_mode=False)
    except PeragoError as error:
        return _refuse(f"{error}{_hint(error)}", 1, error.code)
    except typer.TyperException as error:
        return _refuse(_usage_error(error), 2)
    except typer.Abort:
        return INTERRUPTED


def _hint(error: PeragoError) -> str:
    if not isinstance(error, ConductorUnavailable | LakeUnavailable) and not isinstance(error.__cause__, LakeUnavailable):
        return ""
    from perago import settings  # noqa: PLC0415 - every command would load it
    from perago.cli import _env_file  # noqa: PLC0415

    return _env_file.hint(settings.ENV_FILE)


def _refuse(message: str, code: int, error_code: str = "") -> int:
    console.error(message, error_code)
    return code


def _usage_error(error: typer.TyperException) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "perago")
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"
