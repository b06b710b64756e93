"""`perago run`: runs a task on a copy of a folder and shows what it would publish."""

import contextlib
import json
import time
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from perago.cli import _inputs, _result_folder
from perago.declare.task import TaskDeclaration
from perago.errors import PeragoError, SetupError, TaskStatus
from perago.local_run import environment
from perago.model import FilePath
from perago.terminal import console, diff_view, spinner, tracebacks

Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", metavar="DIR", help="The input: a folder, which is copied and never changed.", show_default=False
    ),
]
Params = Annotated[
    str, typer.Option("--params", "-p", metavar="JSON|FILE", help="The parameters as JSON, or a file that contains them.")
]
Write = Annotated[
    Path | None,
    typer.Option("--write", metavar="DIR", help="Write what would be published to this new or empty folder.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; what the task prints goes to stderr.")]

_MAX_PATH_LENGTH = 1024
"""The system refuses to look at much longer paths. JSON text may be longer."""


class RunExitCode(IntEnum):
    """In addition to 1 (it could not be run) and 2 (wrong usage), which every command has."""

    COMPLETED = 0
    FAILED = 3
    FAILED_WITH_TERMINAL_ERROR = 4


def run(
    module: _inputs.Module, workspace: Workspace = None, params: Params = "{}", write: Write = None, as_json: AsJson = False
) -> None:
    """Run a task on a copy of a folder and show what it would publish.

    The same steps as in the worker: validate, pre checks, task, post checks, diff. Needs no server. The copy is made in the
    temporary directory (TMPDIR) and removed at the end.

    Exit codes: 0 COMPLETED, 1 it could not be run, 2 wrong usage, 3 FAILED (a retry may help), 4 FAILED_WITH_TERMINAL_ERROR.
    """
    _inputs.show_warnings()
    declaration = _inputs.load_task(module)
    files = _files(declaration, workspace, write)
    parameters = _params(params)
    declaration.contract.parse_params(parameters)
    started = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        with console.stdout_to_stderr() if as_json else contextlib.nullcontext(), spinner.Spinner() as listener:
            done = cleanup.enter_context(environment.run(declaration, files, parameters, listener))
        seconds = time.monotonic() - started
        written = write if done.outcome.status is TaskStatus.COMPLETED else None
        if written is not None:
            _result_folder.write(written, done.files)
        if as_json:
            console.write_json(_document(declaration, done, written))
        else:
            _show_changes(declaration, done)
        _show_end(declaration, done, written, seconds, quiet=as_json)
    raise typer.Exit(RunExitCode[done.outcome.status])


def _files(declaration: TaskDeclaration, workspace: Path | None, write: Path | None) -> dict[FilePath, Path]:
    """The files of the input folder; `SetupError` if an option does not fit the task, before the task runs."""
    if declaration.workspace is None:
        for option, given in (("--workspace", workspace), ("--write", write)):
            if given is not None:
                raise SetupError(f"task {declaration.name!r} has no workspace; leave {option} out")
        return {}
    if workspace is None:
        raise SetupError(f"task {declaration.name!r} works on a workspace; name a folder with --workspace DIR")
    if not workspace.is_dir():
        raise SetupError(f"--workspace {workspace} is not a folder")
    if write is not None:
        if not declaration.publishes:
            raise SetupError(f"task {declaration.name!r} is read-only and publishes nothing; leave --write out")
        _result_folder.refuse_dangerous(write, workspace)
    return environment.files_of(workspace)


def _params(given: str) -> object:
    source, text = "--params", given
    file = _params_file(given)
    if file is not None:
        source = f"--params file {file}"
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError(f"{source} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SetupError(f"{source} is not UTF-8 text") from error
    try:
        params = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{source} is not JSON: {error}") from error
    if not isinstance(params, dict):
        raise SetupError(f'{source} must be a JSON object such as {{"name": 1}}, not {text.strip()[:40]}')
    return params  # pyright: ignore[reportUnknownVariableType]


def _params_file(given: str) -> str | None:
    """`@FILE`, or an existing file whose name is not JSON itself."""
    if given.startswith("@"):
        return given[1:]
    if given.lstrip()[:1] in {"{", "[", '"', ""} or "\0" in given or len(given) > _MAX_PATH_LENGTH:
        return None
    return given if Path(given).is_file() else None


def _refuse_constant(word: str) -> NoReturn:
    """NaN and Infinity, which Python's parser would accept."""
    raise ValueError(f"{word} is not a JSON number")


def _document(declaration: TaskDeclaration, done: environment.LocalRun, written: Path | None) -> dict[str, Any]:
    output = done.outcome.output
    return {
        "task": declaration.name,
        "status": done.outcome.status.value,
        "reason": done.outcome.reason,
        "result": None if output is None else output["result"],
        "changes": [
            {
                "path": change.path,
                "change": change.kind.value,
                "size_before": None if change.before is None else change.before.size,
                "size_after": None if change.after is None else change.after.size,
            }
            for change in done.changes
        ],
        "written": None if written is None else str(written),
    }


def _show_changes(declaration: TaskDeclaration, done: environment.LocalRun) -> None:
    out = console.stdout()
    if done.outcome.output is None or declaration.workspace is None:
        return
    if not declaration.publishes:
        out.print(Text("read-only: nothing is published", style="dim"))
    elif not done.changes:
        out.print(Text("no changes: nothing to publish", style="dim"))
    else:
        for line in diff_view.render(done.changes):
            out.print(line)


def _show_end(
    declaration: TaskDeclaration, done: environment.LocalRun, written: Path | None, seconds: float, *, quiet: bool
) -> None:
    if done.outcome.output is None:
        _show_failure(declaration, done)
    elif not quiet:
        out = console.stdout()
        if written is not None:
            out.print(Text(f"wrote {len(done.files)} files to {console.printable(str(written))}"))
        result = json.dumps(done.outcome.output["result"], ensure_ascii=False)
        out.print(Text.assemble(("result: ", "bold"), console.printable(result)))
        out.print(Text.assemble(("COMPLETED", "bold green"), f" {declaration.name}", (f" in {seconds:.2f} s", "dim")))


def _show_failure(declaration: TaskDeclaration, done: environment.LocalRun) -> None:
    if done.error is not None and not isinstance(done.error, PeragoError):
        tracebacks.show(done.error)
    retry = "a retry may help" if done.outcome.status is TaskStatus.FAILED else "no retry would help"
    code = done.error.code if isinstance(done.error, PeragoError) else ""
    console.error(f"{declaration.name} ended with {done.outcome.status} ({retry}): {done.outcome.reason}", code)
