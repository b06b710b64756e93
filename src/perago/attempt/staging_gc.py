"""Finds staging branches of attempts that are over.

Deleting one that is still in use loses no data: its attempt fails and Conductor retries it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perago.attempt import branch_gc
from perago.attempt.branch_gc import BranchFinding
from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound
from perago.lake import port as lake_port
from perago.model import BranchName, Repository, Snapshot
from perago.protocol import staging_names
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK


@dataclass(frozen=True, slots=True)
class TaskNotFound:
    """Conductor no longer knows the task."""


@dataclass(frozen=True, slots=True)
class TaskNotAsked:
    """Conductor was not asked, or the branch name does not contain the task id."""


TaskAnswer = Snapshot | TaskNotFound | TaskNotAsked


StagingFinding = BranchFinding[staging_names.StagingName]


def judge(name: staging_names.StagingName, answer: TaskAnswer, *, now: float, older_than: float) -> StagingFinding:
    age = branch_gc.age(name, now)
    return BranchFinding(name, age, _over(name, answer) or branch_gc.too_old(age, older_than))


def _over(name: staging_names.StagingName, answer: TaskAnswer) -> str | None:
    match answer:
        case TaskNotAsked():
            return None
        case TaskNotFound():
            return "Conductor no longer knows its task"
        case Snapshot():
            if answer.status not in UNFINISHED_TASK:
                return f"its attempt is over: {answer.status}"
            if answer.workflow_status not in ACTIVE_WORKFLOW:
                return f"its workflow is over: {answer.workflow_status}"
            return None if answer.retry_count == name.retry_count else "a later attempt has taken its place"


def find(
    lake: lake_port.Lake,
    conductor: conductor_port.Conductor | None,
    repository: Repository,
    *,
    now: float,
    older_than: float,
) -> list[StagingFinding]:
    """Every staging branch of the repository that Perago named; without a Conductor only age counts."""
    branches = [branch.name for branch in lake.branches(repository, staging_names.PREFIX)]
    return [judge(name, _ask(conductor, name), now=now, older_than=older_than) for name in _named(branches)]


def _named(branches: Iterable[BranchName]) -> Iterator[staging_names.StagingName]:
    for branch in branches:
        name = staging_names.parse(branch)
        if name is not None:
            yield name


def _ask(conductor: conductor_port.Conductor | None, name: staging_names.StagingName) -> TaskAnswer:
    if conductor is None or name.workflow_id is None or name.task_id is None:
        return TaskNotAsked()
    try:
        return conductor.snapshot(name.workflow_id, name.task_id)
    except ConductorNotFound:
        return TaskNotFound()
