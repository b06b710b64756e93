"""`perago run`: a module, a folder and parameters in; what would be published on the screen, the outcome as the exit code."""

import contextlib
import json
import time
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.text import Text

from perago.cli import console, diff, loaded, result_folder, spinner, tracebacks
from perago.declare.task import TaskDeclaration
from perago.errors import PeragoError, SetupError, TaskStatus
from perago.local_run import environment
from perago.model import FilePath


class ExitCode(IntEnum):
    """1 and 2 are every command's: it could not be run, and wrong usage."""

    COMPLETED = 0
    FAILED = 3
    FAILED_WITH_TERMINAL_ERROR = 4


@dataclass(frozen=True, slots=True)
class Request:
    module: str
    workspace: Path | None
    params: str
    write: Path | None


def run(request: Request, *, as_json: bool) -> None:
    """Whatever a person got wrong is refused before the body runs."""
    declaration = loaded.task_of(request.module)
    files = _files(declaration, request)
    params = _params(request.params)
    declaration.contract.parse_params(params)
    started = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        with console.prints_to_stderr() if as_json else contextlib.nullcontext(), spinner.Spinner() as listener:
            done = cleanup.enter_context(environment.rehearse(declaration, files, params, listener))
        seconds = time.monotonic() - started
        written = request.write if done.outcome.status is TaskStatus.COMPLETED else None
        if written is not None:
            result_folder.write(written, done.files)
        if as_json:
            console.write_json(_document(declaration, done, written))
        else:
            _show_changes(declaration, done)
        _show_end(declaration, done, written, seconds, quiet=as_json)
    raise typer.Exit(ExitCode[done.outcome.status])


def _files(declaration: TaskDeclaration, request: Request) -> dict[FilePath, Path]:
    if declaration.workspace is None:
        for option, given in (("--workspace", request.workspace), ("--write", request.write)):
            if given is not None:
                raise SetupError(f"task {declaration.name!r} has no workspace; leave {option} out")
        return {}
    if request.workspace is None:
        raise SetupError(f"task {declaration.name!r} works on a workspace; name a folder with --workspace DIR")
    if not request.workspace.is_dir():
        raise SetupError(f"--workspace {request.workspace} is not a folder")
    if request.write is not None:
        if not declaration.publishes:
            raise SetupError(f"task {declaration.name!r} is read-only and publishes nothing; leave --write out")
        result_folder.refuse_dangerous(request.write, request.workspace)
    return environment.files_of(request.workspace)


def _params(given: str) -> object:
    source, text = "--params", given
    if given.startswith("@"):
        source = f"--params file {given[1:]}"
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError(f"{source} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SetupError(f"{source} is not UTF-8 text") from error
    try:
        params = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{source} is not JSON: {error}") from error
    if not isinstance(params, dict):
        raise SetupError(f'{source} must be a JSON object such as {{"name": 1}}, not {text.strip()[:40]}')
    return params  # pyright: ignore[reportUnknownVariableType]


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _document(declaration: TaskDeclaration, done: environment.Rehearsal, written: Path | None) -> dict[str, Any]:
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


def _show_changes(declaration: TaskDeclaration, done: environment.Rehearsal) -> None:
    out = console.stdout()
    if done.outcome.output is None or declaration.workspace is None:
        return
    if not declaration.publishes:
        out.print(Text("read-only: nothing is published", style="dim"))
    elif not done.changes:
        out.print(Text("no changes: nothing to publish", style="dim"))
    else:
        for line in diff.render(done.changes):
            out.print(line)


def _show_end(
    declaration: TaskDeclaration, done: environment.Rehearsal, written: Path | None, seconds: float, *, quiet: bool
) -> None:
    if done.outcome.output is None:
        _show_failure(declaration, done)
    elif not quiet:
        out = console.stdout()
        if written is not None:
            out.print(Text(f"wrote {len(done.files)} files to {console.printable(str(written))}"))
        shown = json.dumps(done.outcome.output["result"], ensure_ascii=False)
        out.print(Text.assemble(("result: ", "bold"), console.printable(shown)))
        out.print(Text.assemble(("COMPLETED", "bold green"), f" {declaration.name}", (f" in {seconds:.2f} s", "dim")))


def _show_failure(declaration: TaskDeclaration, done: environment.Rehearsal) -> None:
    if done.error is not None and not isinstance(done.error, PeragoError):
        console.traceback_tail(tracebacks.of(done.error))
    helps = "a retry may help" if done.outcome.status is TaskStatus.FAILED else "no retry would help"
    code = done.error.code if isinstance(done.error, PeragoError) else ""
    console.error(f"{declaration.name} ended with {done.outcome.status} ({helps}): {done.outcome.reason}", code)
