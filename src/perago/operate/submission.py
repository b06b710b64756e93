"""Start a run: which commit it starts from, what has to be registered, whether workers serve its tasks."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perago.builtin import names
from perago.conductor import registration, workflow_registration
from perago.conductor.client import ConductorClient
from perago.conductor.registration import Verdict
from perago.conductor.workflow_registration import WorkflowRegistration
from perago.conductor.workflows import Start, WorkflowClient
from perago.declare import module_loader, taskdef
from perago.declare.task import TaskDeclaration
from perago.errors import LakeNotFound, SetupError
from perago.lake import existence
from perago.model import BranchName, Commit, CommitId, Repository, TaskType, WorkflowId, WorkspaceRef
from perago.operate import evidence, recovery
from perago.operate.evidence import Evidence
from perago.operate.servers import Servers
from perago.pipelines import compiler
from perago.pipelines.graph import Pipeline
from perago.protocol import head

WORKER_SECONDS = 120.0
"""A worker with a free slot asks for tasks every few seconds. One whose slots are all busy does not ask."""
_REPORT_SECONDS = 10.0
"""How long a publication whose report is on its way is waited for."""
_PAUSE = 0.5
_DEEPEST = 2


# the commit


@dataclass(frozen=True, slots=True)
class Base:
    """Where a run starts, and what the user should know about it."""

    workspace: WorkspaceRef
    notes: Sequence[str] = ()


def find_base(servers: Servers, repository: Repository, branch: BranchName) -> Base:
    """The head, or the commit below a head that Conductor did not accept, which the first step that publishes replaces.

    `SetupError` where there is no such commit, and while it cannot be told.
    """
    _require_branch(servers, repository, branch)
    target = f"{repository}/{branch}"
    deadline = time.monotonic() + _REPORT_SECONDS
    while True:
        newest, *below = (evidence.of(servers, commit) for commit in servers.settings.history(repository, branch, _DEEPEST))
        if not isinstance(newest.acceptance, head.InProgress) or time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE)
    _require_decided(newest, target)
    if not newest.may_go:
        return Base(WorkspaceRef(repository, branch, newest.commit.id))
    if not below or below[0].may_go or isinstance(below[0].acceptance, head.InProgress):
        raise SetupError(
            f"no run can start on {target}: neither its head {newest.commit.id} nor the commit below it was accepted; "
            f"run perago doctor {target}"
        )
    _require_decided(below[0], target)
    note = f"the head {newest.commit.id} is {recovery.describe(newest)}; the run starts from {below[0].commit.id} below it"
    return Base(WorkspaceRef(repository, branch, below[0].commit.id), [note])


def _require_decided(one: Evidence, target: str) -> None:
    match one.acceptance:
        case head.Undecidable():
            raise SetupError(
                f"whether {one.commit.id} on {target} was accepted cannot be told ({recovery.describe(one)}); "
                f"run perago doctor {target}, or name the commit with --ref"
            )
        case head.InProgress(by):
            raise SetupError(
                f"the head {one.commit.id} of {target} is {recovery.describe(one)}; wait for it (perago watch {by.workflow_id}), "
                "or end its run"
            )
        case _:
            return


def check_ref(servers: Servers, repository: Repository, branch: BranchName, wanted: str, *, writes: bool) -> Base:
    """A commit that the user named; `SetupError` unless it is on the branch."""
    _require_branch(servers, repository, branch)
    commit = _commit(servers, repository, wanted)
    if servers.settings.merge_base(repository, commit.id, branch) != commit.id:
        raise SetupError(f"{commit.id} is not in the history of branch {branch}; perago log {repository}/{branch} shows it")
    newest, *below = (evidence.of(servers, one) for one in servers.settings.history(repository, branch, _DEEPEST))
    is_replaceable = newest.may_go and bool(below) and below[0].commit.id == commit.id
    notes: list[str] = []
    if writes and commit.id != newest.commit.id and not is_replaceable:
        notes.append(
            f"{commit.id} is not the head of {branch}, which is at {newest.commit.id}: the first step that publishes is refused"
        )
    return Base(WorkspaceRef(repository, branch, commit.id), notes)


def _commit(servers: Servers, repository: Repository, wanted: str) -> Commit:
    try:
        commit = servers.lake.commit(repository, CommitId(wanted))
    except LakeNotFound as error:
        raise SetupError(f"--ref {wanted} is not a commit of repository {repository}") from error
    if not commit.id.startswith(wanted):
        raise SetupError(f"--ref {wanted} is not a commit id: it resolves to {commit.id}; pass that id itself")
    return commit


def _require_branch(servers: Servers, repository: Repository, branch: BranchName) -> None:
    try:
        servers.lake.branch(repository, branch)
    except LakeNotFound as error:
        if not existence.repository_exists(servers.lake, repository):
            raise SetupError(
                f"repository {repository} does not exist in lakeFS at {servers.settings.url}; "
                f"perago import DIR {repository} --create makes it from a folder"
            ) from error
        raise SetupError(
            f"branch {branch} does not exist in repository {repository}; "
            f"perago import DIR {repository}/{branch} --create makes it"
        ) from error


# definitions and workers


@dataclass(frozen=True, slots=True)
class Registered:
    workflow: WorkflowRegistration
    created_tasks: Sequence[str]
    differing_tasks: Sequence[str]
    """Those whose TaskDef in Conductor is another one: it is left as it is."""


def needed_tasks(pipeline: Pipeline) -> Sequence[TaskDeclaration]:
    """The pipeline's own, those of the pipelines that it calls, and the built-in ones that its lanes need."""
    built_in = [module_loader.load(module) for module in names.MODULES] if pipeline.needs_lanes else []
    return [*pipeline.tasks(), *built_in]


def register(conductor: ConductorClient, pipeline: Pipeline, tasks: Sequence[TaskDeclaration]) -> Registered:
    """Missing TaskDefs are created; a workflow that is missing or differs gets a new version, those that it calls first."""
    created: list[str] = []
    differing: list[str] = []
    for task in tasks:
        wanted = taskdef.of(task)
        held = conductor.task_definition(TaskType(task.name))
        if held is None:
            registration.register(conductor, wanted)
            created.append(task.name)
        elif registration.differences(held, wanted):
            differing.append(task.name)
    definitions = [compiler.workflow(one) for one in (*pipeline.called(), pipeline)]
    return Registered(workflow_registration.register_all(conductor, definitions)[-1], created, differing)


def without_workers(client: WorkflowClient, tasks: Sequence[TaskDeclaration], now: float) -> list[str]:
    """The task types that no worker asked for lately."""
    polls = {task.name: client.last_poll(TaskType(task.name)) for task in tasks}
    return [name for name, last in polls.items() if last is None or now - last > WORKER_SECONDS]


# start


def start(
    client: WorkflowClient,
    workflow: WorkflowRegistration,
    workspace: WorkspaceRef | None,
    inputs: Mapping[str, Any],
    correlation_id: str,
) -> WorkflowId:
    """`ConductorUnknown` if it cannot be told whether the run was started."""
    given = {**({} if workspace is None else {"workspace": workspace.as_json()}), **inputs}
    return client.start(Start(workflow.name, workflow.version, given, correlation_id))


def is_new_version(workflow: WorkflowRegistration) -> bool:
    return workflow.verdict is not Verdict.UNCHANGED
