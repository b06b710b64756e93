"""What both servers say about a branch: its commits with the acceptance of each, and accepted commits that it does not hold."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from perago.attempt.target_branch import find_staging_names
from perago.conductor import task_json as conductor_wire
from perago.errors import ConductorNotFound, LakeNotFound
from perago.model import (
    Attempt,
    BranchName,
    Commit,
    CommitId,
    Repository,
    Snapshot,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
)
from perago.operate.servers import Servers, read_together
from perago.protocol import commit_labels, head

HISTORY = 1000
"""So many commits are read, in one request."""
DEPTH = 100
"""So many of them, from the head down, are judged."""
WORKFLOWS = 50
"""So many workflows that wrote to a branch lately are asked about."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One commit, the task that its labels name, what Conductor says of that task, and what follows."""

    commit: Commit
    by: commit_labels.Labels | None
    seen: Snapshot | None
    acceptance: head.Acceptance
    workflow_status: str = ""
    """Empty where Conductor does not know the workflow."""

    @property
    def workflow_name(self) -> str:
        """Empty where Conductor does not know the task."""
        return self.seen.workflow_name if self.seen is not None else ""

    @property
    def may_go(self) -> bool:
        """Conductor did not accept it, and will not."""
        return isinstance(self.acceptance, head.Abandoned | head.CompletedOtherwise)


@dataclass(frozen=True, slots=True)
class Missing:
    """A commit that Conductor accepted for the branch and that is not in its history."""

    commit: Commit
    workflow_id: WorkflowId
    reference_name: str
    below: Sequence[CommitId] = ()
    """What it stands on that is not in the history either, the newest first."""
    base: CommitId | None = None
    """The commit of the history below all of them; None where there is none within reach."""


@dataclass(frozen=True, slots=True)
class History:
    """`judged` goes from the head down to the first commit that Conductor accepted, may have accepted, or waits for."""

    repository: Repository
    branch: BranchName
    commits: Sequence[Commit]
    judged: Sequence[Evidence]
    missing: Sequence[Missing]
    workflows: Sequence[WorkflowId]
    """Those that wrote to the branch lately, or are about to."""

    @property
    def head(self) -> Commit:
        return self.commits[0]

    @property
    def newest_accepted(self) -> Evidence | None:
        return next((one for one in self.judged if isinstance(one.acceptance, head.AcceptedCommit)), None)

    def above(self, commit: CommitId) -> Sequence[Commit]:
        """What stands on `commit`, the newest first."""
        return list(itertools.takewhile(lambda one: one.id != commit, self.commits))

    def holds(self, commit: CommitId | None) -> bool:
        return any(one.id == commit for one in self.commits)


def examine(servers: Servers, repository: Repository, branch: BranchName) -> History:
    commits = servers.settings.history(repository, branch, HISTORY)
    judged: list[Evidence] = []
    for commit in commits[:DEPTH]:
        judged.append(of(servers, commit))
        if isinstance(judged[-1].acceptance, head.AcceptedCommit | head.Undecidable | head.InProgress):
            break
    workflows = list(itertools.islice(_workflows(servers, repository, branch, commits[:DEPTH]), WORKFLOWS))
    missing = list(_missing(servers, repository, branch, workflows, {one.id for one in commits}))
    return History(repository, branch, commits, judged, missing, workflows)


def of(servers: Servers, commit: Commit) -> Evidence:
    """As an attempt of the same workflow would judge it, had it no task of its own."""
    by = commit_labels.read(commit.metadata)
    if by is None:
        return _unlabelled(commit)
    return _judge(commit, by, servers.workflows.get(by.workflow_id) or {}, _task(servers, by.task_id))


def of_all(servers: Servers, commits: Sequence[Commit]) -> Sequence[Evidence]:
    """As `of` for each, with one request per workflow and a few at a time; the replies are not kept.

    A task is taken from the reply about its workflow, where `of` asks for the task itself. That is enough for readers of the
    history; what changes a branch uses `of`.
    """
    runs: dict[WorkflowId, list[tuple[Commit, commit_labels.Labels]]] = {}
    for commit in commits:
        if (by := commit_labels.read(commit.metadata)) is not None:
            runs.setdefault(by.workflow_id, []).append((commit, by))
    found = read_together(lambda run: _of_run(servers, *run), runs.items())
    judged = {one.commit.id: one for several in found for one in several}
    return [judged.get(commit.id) or _unlabelled(commit) for commit in commits]


def _of_run(
    servers: Servers, workflow_id: WorkflowId, commits: Sequence[tuple[Commit, commit_labels.Labels]]
) -> Sequence[Evidence]:
    run = servers.workflows.read(workflow_id) or {}
    tasks = {str(task.get("taskId")): task for task in cast("Sequence[Json]", run.get("tasks") or [])}
    seen = {by.task_id: conductor_wire.snapshot(tasks[by.task_id]) for _, by in commits if by.task_id in tasks}
    return [_judge(commit, by, run, seen.get(by.task_id)) for commit, by in commits]


def _judge(commit: Commit, by: commit_labels.Labels, run: Json, seen: Snapshot | None) -> Evidence:
    """`run` is the workflow as read from Conductor, empty if Conductor does not know it, and `seen` its task."""
    status = str(run.get("status", ""))
    if seen is not None:
        seen = replace(seen, workflow_status=status, workflow_ended=int(run.get("endTime") or 0))
    asking = _outsider(by.workflow_id if run else WorkflowId(""))
    acceptance = head.judge(commit, seen, own=asking, own_run=int(run.get("createTime") or 0))
    return Evidence(commit, by, seen, acceptance, status)


def _unlabelled(commit: Commit) -> Evidence:
    made = head.Unlabelled(commit.message, commit.committer, commit_labels.command(commit.metadata))
    return Evidence(commit, None, None, made)


def _task(servers: Servers, task_id: TaskId) -> Snapshot | None:
    try:
        return servers.conductor.task(task_id)
    except ConductorNotFound:
        return None


def _outsider(workflow_id: WorkflowId) -> Attempt:
    """No task of its own: nothing is an earlier execution of it."""
    return Attempt(workflow_id, TaskId(""), 0, "", 0, 0, TaskType(""), WorkerId(""), int(time.time() * 1000), 0)


def _workflows(servers: Servers, repository: Repository, branch: BranchName, commits: Iterable[Commit]) -> Iterator[WorkflowId]:
    labelled = (commit_labels.read(commit.metadata) for commit in commits)
    staged = (name.workflow_id for name in find_staging_names(servers.lake, repository, branch))
    every = itertools.chain((by.workflow_id for by in labelled if by is not None), (name for name in staged if name is not None))
    yield from dict.fromkeys(every)


def _missing(
    servers: Servers, repository: Repository, branch: BranchName, workflows: Sequence[WorkflowId], present: set[CommitId]
) -> Iterator[Missing]:
    for workflow_id in workflows:
        for task in tasks_of(servers, workflow_id):
            ref = _published(task, repository, branch)
            if ref is None or ref in present:
                continue
            try:
                commit = servers.lake.commit(repository, ref)
                is_below = servers.settings.merge_base(repository, ref, branch) == ref
            except LakeNotFound:
                continue
            if is_below:
                continue
            below = list(_down(servers, repository, commit, present))
            base = below.pop() if below and below[-1] in present else None
            yield Missing(commit, workflow_id, str(task.get("referenceTaskName", "")), below, base)


def _down(servers: Servers, repository: Repository, commit: Commit, present: set[CommitId]) -> Iterator[CommitId]:
    """First parents, down to the first that is present."""
    parent = commit.first_parent
    for _ in range(DEPTH):
        if parent is None:
            return
        yield parent
        if parent in present:
            return
        parent = servers.lake.commit(repository, parent).first_parent


def tasks_of(servers: Servers, workflow_id: WorkflowId) -> Sequence[Json]:
    return cast("Sequence[Json]", (servers.workflows.get(workflow_id) or {}).get("tasks") or [])


def accepted(seen: Snapshot) -> CommitId | None:
    return head.accepted_ref(seen)


def input_of(task: Json) -> Json:
    return _workspace(task.get("inputData"))


def _published(task: Json, repository: Repository, branch: BranchName) -> CommitId | None:
    """The commit that a completed task put on the branch; None where it left it as it was."""
    ref = head.accepted_ref(conductor_wire.snapshot(task))
    written = _workspace(task.get("outputData"))
    is_here = (written.get("repository"), written.get("branch")) == (repository, branch)
    return ref if is_here and ref != input_of(task).get("ref") else None


def _workspace(data: object) -> Json:
    found = cast("Json", data).get("workspace") if isinstance(data, Mapping) else None
    return cast("Json", found) if isinstance(found, Mapping) else {}
