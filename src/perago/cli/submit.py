"""`perago submit`: starts a run of a pipeline or of a task."""

import contextlib
import time
from collections.abc import Generator, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from perago import settings
from perago.cli import _inputs, _json_option, _repository, _watching
from perago.conductor import workflows
from perago.conductor.client import ConductorClient
from perago.declare.task import TaskDeclaration
from perago.errors import SetupError
from perago.model import WorkflowId
from perago.operate import servers, submission
from perago.operate.submission import Base, Registered
from perago.pipelines import inputs, one_step
from perago.pipelines.graph import Pipeline
from perago.supervisor import status as worker_status
from perago.terminal import console

RepositoryOption = Annotated[
    str, typer.Option("--repository", "-r", metavar="REPOSITORY", help="The lakeFS repository to work on.", show_default=False)
]
BranchOption = Annotated[
    str, typer.Option("--branch", "-b", metavar="BRANCH", help="The branch to start from and to publish to.")
]
Ref = Annotated[
    str,
    typer.Option("--ref", metavar="COMMIT", help="The commit to start from instead of the branch's newest.", show_default=False),
]
Params = Annotated[
    str, typer.Option("--params", "-p", metavar="JSON|FILE", help="The inputs as JSON, or a file that contains them.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow the run until it ends, as perago watch does.")]
RequireWorkers = Annotated[bool, typer.Option("--require-workers", help="Start nothing if a task has no worker.")]


def submit(  # noqa: PLR0913 - one parameter per option
    module: _inputs.Module,
    *,
    repository: RepositoryOption = "",
    branch: BranchOption = "main",
    ref: Ref = "",
    params: Params = "{}",
    watch: Watch = False,
    require_workers: RequireWorkers = False,
    as_json: _inputs.AsJson = False,
) -> None:
    """Start a run of a pipeline or of a task on a branch.

    The inputs are validated first. Then the branch is resolved to a commit: its head, or the commit below a head that Conductor
    did not accept. A task runs as a pipeline of one step, which has its name.

    A pipeline that Conductor does not have, or has otherwise, is registered as a new version, and missing TaskDefs are created;
    TaskDefs that differ are left to perago register. A task that no worker asked for lately gets a warning.

    Prints the id of the run and its correlation id, which is random: if Conductor's reply is lost, the run is looked up by it.

    Exit codes: 0 started, 1 nothing was started, 2 wrong usage. With --watch: those of perago watch.
    """
    given = _json_option.parse(params)
    pipeline = _load(module)
    inputs.require_valid(pipeline, given)
    _require_fitting(pipeline, repository, ref)
    local = _inputs.load_settings()
    access = local.require_conductor("perago submit")
    with _watching.connected(access) as client, _conductor(access) as conductor:
        conductor.check()
        base = _base(pipeline, repository, branch, ref)
        tasks = submission.needed_tasks(pipeline)
        _check_workers(submission.without_workers(client, tasks, time.time()), module, tasks, local, require=require_workers)
        registered = submission.register(conductor, pipeline, tasks)
        _warn(registered, module)
        complete = inputs.with_defaults(pipeline, given)
        correlation_id = workflows.correlation_id()
        workspace = None if base is None else base.workspace
        run = submission.start(client, registered.workflow, workspace, complete, correlation_id)
        if not (as_json and watch):
            _show(run, registered, base, complete, correlation_id, as_json=as_json, watch=watch)
        if watch:
            raise typer.Exit(_watching.watch(client, run, local.perago_log_root, patience=_watching.PATIENCE, as_json=as_json))


def _load(module: str) -> Pipeline:
    declared = _inputs.load_declared(module)
    return one_step.of(declared) if isinstance(declared, TaskDeclaration) else declared


def _require_fitting(pipeline: Pipeline, repository: str, ref: str) -> None:
    if pipeline.has_workspace and not repository:
        raise SetupError(f"{pipeline.name!r} works on a workspace; name the repository with --repository")
    if not pipeline.has_workspace:
        for option, value in (("--repository", repository), ("--ref", ref)):
            if value:
                raise SetupError(f"{pipeline.name!r} has no workspace; leave {option} out")


def _base(pipeline: Pipeline, repository: str, branch: str, ref: str) -> Base | None:
    if not pipeline.has_workspace:
        return None
    name, target = _repository.repository_name(repository), _repository.branch_name(branch, "--branch")
    with _repository.connected("perago submit") as (_, both):
        if ref:
            _repository.ref_name(ref, "--ref")
            base = submission.check_ref(both, name, target, ref, writes=pipeline.writes)
        else:
            base = submission.find_base(both, name, target)
    for note in base.notes:
        console.warning(note)
    return base


@contextlib.contextmanager
def _conductor(access: settings.ConductorAccess) -> Generator[ConductorClient]:
    client = ConductorClient(
        access.url, timeout=servers.TIMEOUTS.request, auth_key=access.auth_key, auth_secret=access.auth_secret
    )
    with contextlib.closing(client):
        yield client


def _check_workers(
    not_polled: Sequence[str], module: str, tasks: Sequence[TaskDeclaration], local: settings.Settings, *, require: bool
) -> None:
    served = set[str]() if require else _served_here(module, tasks, local)
    missing = [name for name in not_polled if name not in served]
    if not missing:
        return
    minutes = f"{submission.WORKER_SECONDS / 60:.0f} minutes"
    line = (
        f"no worker asked for {', '.join(missing)} in the last {minutes}: one may be starting or busy; "
        f"if none runs, start one with perago start {module}"
    )
    if require:
        raise SetupError(f"nothing was started: {line}")
    console.warning(line)


def _served_here(module: str, tasks: Sequence[TaskDeclaration], local: settings.Settings) -> set[str]:
    """The tasks of workers on this machine, which may not have polled for all of them yet: Spark takes seconds to start."""
    workers = [worker.state for worker in worker_status.running_workers(local.perago_log_root)]
    modules = {name for state in workers if state["conductor_is_up"] for name in state["modules"]}
    return {task.name for task in tasks if modules & {module, task.module}}


def _warn(registered: Registered, module: str) -> None:
    if registered.differing_tasks:
        names = ", ".join(registered.differing_tasks)
        console.warning(f"Conductor has another TaskDef for {names}; perago register {module} updates it")


def _show(
    run: WorkflowId,
    registered: Registered,
    base: Base | None,
    given: dict[str, Any],
    correlation_id: str,
    *,
    as_json: bool,
    watch: bool,
) -> None:
    workflow = registered.workflow
    workspace = None if base is None else base.workspace
    if as_json:
        document = {"run": run, "pipeline": workflow.name, "version": workflow.version, "correlation_id": correlation_id}
        console.write_json({**document, "workspace": None if workspace is None else workspace.as_json(), "inputs": given})
        return
    out = console.stdout()
    place = "" if workspace is None else f" on {workspace.repository}/{workspace.branch} at {workspace.ref}"
    new = " (new)" if submission.is_new_version(workflow) else ""
    out.print(Text(f"run {run} of {workflow.name}, version {workflow.version}{new}{place}; correlation id {correlation_id}"))
    if not watch:
        out.print(Text(f"watch it with perago watch {run}", style="dim"))
