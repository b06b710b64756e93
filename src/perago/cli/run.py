"""`perago run`: runs a task on a copy of a folder, or of objects in lakeFS, and shows what it would publish."""

import contextlib
import json
import time
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from perago import settings
from perago.cli import _inputs, _repository, _result_folder
from perago.errors import RuntimeConfigError, SetupError, TaskResultError, TaskStatus
from perago.events import Emit
from perago.lake.client import TRANSFER_TIMEOUTS, LakeFS
from perago.local_run import environment, lake_input, task_process
from perago.local_run.messages import Declared
from perago.model import Repository
from perago.terminal import console, diff_view, spinner, tracebacks

Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", metavar="DIR", help="The input: a folder, which is copied and never changed.", show_default=False
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="REPOSITORY/REF",
        help="The input: the objects at a branch, tag or commit in lakeFS, which are downloaded. Nothing is written to lakeFS.",
        show_default=False,
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
    TIMED_OUT = 5


def run(
    module: _inputs.Module,
    workspace: Workspace = None,
    from_: From = None,
    params: Params = "{}",
    write: Write = None,
    as_json: AsJson = False,
) -> None:
    """Run a task on a copy of a folder and show what it would publish.

    The same steps as in the worker: validate, pre checks, task, post checks, diff. Needs no server, except for --from. The task
    runs in a process of its own, whose working directory is the copy of its workspace; it is stopped after the timeout.seconds
    of its declaration. The copy is made in the temporary directory (TMPDIR) and removed at the end.

    Exit codes: 0 COMPLETED, 1 it could not be run, 2 wrong usage, 3 FAILED (Conductor would retry it),
    4 FAILED_WITH_TERMINAL_ERROR (it would not), 5 TIMED_OUT.
    """
    _inputs.show_warnings()
    parameters = _params(params)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(_repository.interruptible())
        # The process of the task writes to what is stdout while it is started.
        with console.stdout_to_stderr() if as_json else contextlib.nullcontext(), spinner.Spinner() as listener:
            process = cleanup.enter_context(task_process.started(module))
            declared = process.declared()
            for warning in declared.warnings:
                console.warning(f"{declared.name}: {warning}")
            _require_fitting(declared, workspace, from_, write)
            folder = workspace if from_ is None else _copied_from_lakefs(process, declared, from_, listener)
            started = time.monotonic()
            ended = process.run(declared, folder, parameters, listener)
        seconds = time.monotonic() - started
        done = ended.done
        for warning in done.warnings:
            console.warning(warning)
        written = write if done.outcome.status is TaskStatus.COMPLETED else None
        if written is not None:
            _result_folder.write(written, done.files)
        if as_json:
            console.write_json(_document(declared, ended, written))
        else:
            _show_changes(declared, done)
        _show_end(declared, ended, written, seconds, quiet=as_json)
    raise typer.Exit(RunExitCode[_status(ended)])


def _require_fitting(declared: Declared, workspace: Path | None, from_: str | None, write: Path | None) -> None:
    """`SetupError` if an option does not fit the task, before the task runs."""
    if not declared.has_workspace:
        for option, given in (("--workspace", workspace), ("--from", from_), ("--write", write)):
            if given is not None:
                raise SetupError(f"task {declared.name!r} has no workspace; leave {option} out")
        return
    if workspace is None and from_ is None:
        raise SetupError(
            f"task {declared.name!r} works on a workspace; name a folder with --workspace DIR, or --from REPOSITORY/REF"
        )
    if workspace is not None and from_ is not None:
        raise SetupError("--workspace and --from both name the input; leave one out")
    if workspace is not None and not workspace.is_dir():
        raise SetupError(f"--workspace {workspace} is not a folder")
    if write is not None:
        if not declared.publishes:
            raise SetupError(f"task {declared.name!r} is read-only and publishes nothing; leave --write out")
        _result_folder.refuse_dangerous(write, workspace)


def _copied_from_lakefs(process: task_process.TaskProcess, declared: Declared, source: str, emit: Emit) -> Path:
    """The input as a folder in the directory of the run; prints the commit."""
    repository, _, ref = source.removeprefix("lakefs://").partition("/")
    if not ref:
        raise SetupError(f"--from {source} names no branch, tag or commit; write REPOSITORY/REF, such as sales/main")
    access = settings.load().lakefs
    if access is None:
        raise RuntimeConfigError("LakeFS config is required for perago run --from")
    folder = process.directory / "input"
    with LakeFS(access.url, access.access_key_id, access.secret_access_key, timeouts=TRANSFER_TIMEOUTS) as lake:
        commit = lake_input.find(lake, _repository.repository_name(repository), ref)
        console.stderr().print(Text(f"input: {repository}/{ref}, commit {commit.id}"))
        lake_input.copy(lake, Repository(repository), commit, declared.prefix, folder, emit)
    return folder


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


def _status(ended: task_process.IsolatedRun) -> str:
    return RunExitCode.TIMED_OUT.name if ended.timed_out else ended.done.outcome.status.value


def _document(declared: Declared, ended: task_process.IsolatedRun, written: Path | None) -> dict[str, Any]:
    done = ended.done
    output = done.outcome.output
    return {
        "task": declared.name,
        "status": _status(ended),
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


def _show_changes(declared: Declared, done: environment.LocalRun) -> None:
    out = console.stdout()
    if done.outcome.output is None or not declared.has_workspace:
        return
    if not declared.publishes:
        out.print(Text("read-only: nothing is published", style="dim"))
    elif not done.changes:
        out.print(Text("no changes: nothing to publish", style="dim"))
    else:
        for line in diff_view.render(done.changes):
            out.print(line)


def _show_end(declared: Declared, ended: task_process.IsolatedRun, written: Path | None, seconds: float, *, quiet: bool) -> None:
    done = ended.done
    if done.outcome.output is None:
        _show_failure(declared, ended)
    elif not quiet:
        out = console.stdout()
        if written is not None:
            out.print(Text(f"wrote {len(done.files)} files to {console.printable(str(written))}"))
        result = json.dumps(done.outcome.output["result"], ensure_ascii=False)
        out.print(Text.assemble(("result: ", "bold"), console.printable(result)))
        out.print(Text.assemble(("COMPLETED", "bold green"), f" {declared.name}", (f" in {seconds:.2f} s", "dim")))


def _show_failure(declared: Declared, ended: task_process.IsolatedRun) -> None:
    tracebacks.show(ended.traceback)
    status = _status(ended)
    console.error(
        f"{declared.name} ended with {status} ({_what_follows(declared, ended)}): {ended.done.outcome.reason}", ended.code
    )


def _what_follows(declared: Declared, ended: task_process.IsolatedRun) -> str:
    """What Conductor would do, and whether that can help."""
    if ended.timed_out:
        return "Conductor would retry it" if declared.retried_after_timeout else "Conductor would time out the workflow"
    if ended.done.outcome.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR:
        return "no retry would help"
    if ended.code == TaskResultError.code:
        return "Conductor would retry it; correct the task, which returns this on every attempt"
    return "Conductor would retry it"
