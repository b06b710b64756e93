"""`perago run`: runs a task or a pipeline on a copy of a folder, or of objects in lakeFS, and shows what it would publish."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from perago import settings
from perago.cli import _inputs, _json_option, _pipeline_output, _repository, _result_folder, _task_output
from perago.cli._run_exit_code import RunExitCode
from perago.errors import RuntimeConfigError, SetupError, TaskStatus
from perago.events import Emit
from perago.lake.client import TRANSFER_TIMEOUTS, LakeFS
from perago.local_run import lake_input, pipeline_process, task_process
from perago.local_run.messages import Declared, DeclaredPipeline
from perago.model import Repository
from perago.terminal import console, spinner

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
    str,
    typer.Option(
        "--params",
        "-p",
        metavar="JSON|FILE",
        help="The parameters of a task or the inputs of a pipeline as JSON, or a file that contains them.",
    ),
]
GivenAnswers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="STEP=JSON|FILE",
        help="The answer of a human step as JSON, or a file that contains it; once for each step.",
        show_default=False,
    ),
]
Write = Annotated[
    Path | None,
    typer.Option("--write", metavar="DIR", help="Write what would be published to this new or empty folder.", show_default=False),
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep",
        help="If post checks fail, write what the task left: to the folder of --write, or to a new temporary one.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document; what the task prints goes to stderr.")]


@dataclass(frozen=True, slots=True)
class _Given:
    """What the task or pipeline runs with."""

    folder: Path | None
    params: dict[str, Any]
    answers: dict[str, Any]


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    module: _inputs.Module,
    workspace: Workspace = None,
    from_: From = None,
    params: Params = "{}",
    answer: GivenAnswers = None,
    write: Write = None,
    keep: Keep = False,
    as_json: AsJson = False,
) -> None:
    """Run a task or a pipeline on a copy of a folder; show what changes.

    The same steps as in the worker: validate, pre checks, task, post checks, diff. Needs no server, except for --from. It
    runs in a process of its own; a task's working directory is the copy of its workspace, and a task is stopped after the
    timeout.seconds of its declaration. The copy is made in the temporary directory (TMPDIR) and removed at the end.

    The folder is the workspace of a task. For a pipeline, whose tasks may have different prefixes, it is the root of the
    repository: a task with the prefix /sales works on the files below sales/. Each step is one attempt, lanes run one after
    another, and nothing waits. A human step takes what --answer gives as its result, and changes no file.

    Exit codes: 0 COMPLETED, 1 it could not be run, 2 wrong usage, 3 FAILED (Conductor would retry it),
    4 FAILED_WITH_TERMINAL_ERROR (it would not), 5 TIMED_OUT; for a pipeline, those of the step that failed.
    """
    _inputs.show_warnings()
    parameters, answers = _json_option.parse(params), _answers(answer or [])
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(_repository.interruptible())
        # The process of the task writes to what is stdout while it is started.
        with console.stdout_to_stderr() if as_json else contextlib.nullcontext():
            process = cleanup.enter_context(task_process.started(module))
        listener = cleanup.enter_context(spinner.Spinner())
        declared = process.declared()
        for warning in declared.warnings:
            console.warning(f"{declared.name}: {warning}")
        _require_fitting(declared, workspace, from_, write, keep=keep)
        folder = workspace if from_ is None else _copied_from_lakefs(process, declared, from_, listener)
        arguments = (process, _Given(folder, parameters, answers), _result_folder.Result(write, keep), listener)
        if isinstance(declared, DeclaredPipeline):
            code = _run_pipeline(declared, *arguments, as_json=as_json)
        else:
            _require_no_answers(declared, answers)
            code = _run_task(declared, *arguments, as_json=as_json)
    raise typer.Exit(code)


def _run_task(
    declared: Declared,
    process: task_process.TaskProcess,
    given: _Given,
    result: _result_folder.Result,
    listener: spinner.Spinner,
    *,
    as_json: bool,
) -> RunExitCode:
    started = time.monotonic()
    ended = process.run(declared, given.folder, given.params, listener, keep=result.keep)
    listener.stop()
    seconds = time.monotonic() - started
    done = ended.done
    for warning in done.warnings:
        console.warning(warning)
    written = result.write(done.files if done.outcome.status is TaskStatus.COMPLETED else None, done.kept_files)
    if as_json:
        console.write_json(_task_output.document(declared, ended, written))
    else:
        _task_output.show_changes(declared, done)
    _task_output.show_end(declared, ended, written, seconds, quiet=as_json)
    return RunExitCode[_task_output.status(ended)]


def _run_pipeline(
    declared: DeclaredPipeline,
    process: task_process.TaskProcess,
    given: _Given,
    result: _result_folder.Result,
    listener: spinner.Spinner,
    *,
    as_json: bool,
) -> RunExitCode:
    started = time.monotonic()
    screen = _pipeline_output.StepsOnScreen(listener, quiet=as_json)
    follower = pipeline_process.Follower(screen.begins, screen.ended)
    ended = pipeline_process.run(process, given.folder, given.params, follower, listener, given.answers, keep=result.keep)
    listener.stop()
    seconds = time.monotonic() - started
    done = ended.done
    written = None if done is None else result.write(done.files if ended.failed is None else None, done.kept_files)
    if as_json:
        console.write_json(_pipeline_output.document(declared, ended, written))
    _pipeline_output.show_end(declared, ended, written, seconds, quiet=as_json)
    return _pipeline_output.exit_code(ended)


def _answers(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{one} is not STEP=JSON, such as review='{{}}'", param_hint="--answer")
        found[name] = _json_option.parse(text, f"--answer {name}")
    return found


def _require_no_answers(declared: Declared, answers: dict[str, Any]) -> None:
    if answers:
        raise SetupError(f"{declared} has no human steps; leave --answer out")


def _require_fitting(
    declared: Declared | DeclaredPipeline, workspace: Path | None, from_: str | None, write: Path | None, *, keep: bool
) -> None:
    """`SetupError` if an option does not fit, before anything runs."""
    if not declared.has_workspace:
        for option, given in (("--workspace", workspace), ("--from", from_), ("--write", write), ("--keep", keep or None)):
            if given is not None:
                raise SetupError(f"{declared} has no workspace; leave {option} out")
        return
    if workspace is None and from_ is None:
        raise SetupError(f"{declared} works on a workspace; name a folder with --workspace DIR, or --from REPOSITORY/REF")
    if workspace is not None and from_ is not None:
        raise SetupError("--workspace and --from both name the input; leave one out")
    if workspace is not None and not workspace.is_dir():
        raise SetupError(f"--workspace {workspace} is not a folder")
    if keep and not declared.publishes:
        raise SetupError(f"{declared} is read-only and publishes nothing; leave --keep out")
    if write is not None:
        if not declared.publishes:
            raise SetupError(f"{declared} is read-only and publishes nothing; leave --write out")
        _result_folder.refuse_dangerous(write, workspace)


def _copied_from_lakefs(
    process: task_process.TaskProcess, declared: Declared | DeclaredPipeline, source: str, emit: Emit
) -> Path:
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
        if isinstance(declared, Declared):
            lake_input.copy(lake, Repository(repository), commit, declared.prefix, folder, emit)
        else:
            folder.mkdir()
            for prefix in declared.prefixes:
                lake_input.copy(lake, Repository(repository), commit, prefix, folder / prefix, emit)
    return folder
