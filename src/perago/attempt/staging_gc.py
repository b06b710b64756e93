"""Staging branches whose owner is gone: what a repository holds and what Conductor says come in, what may be deleted leaves.

Deleting one that is still in use is safe, only unkind: its attempt fails and Conductor tries again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound, LakeError, LakeNotFound
from perago.lake import port as lake_port
from perago.model import BranchName, Repository, Snapshot
from perago.protocol import staging_names
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK


@dataclass(frozen=True, slots=True)
class Unknown:
    """Conductor has no such task any more."""


@dataclass(frozen=True, slots=True)
class Unasked:
    """Nobody asked Conductor, or the name does not say about which task."""


Standing = Snapshot | Unknown | Unasked


@dataclass(frozen=True, slots=True)
class Finding:
    """One staging branch. `orphaned` says why it may go, None that it has to stay; `failure` why it is still there."""

    name: staging_names.StagingName
    age_seconds: float | None
    orphaned: str | None
    is_deleted: bool = False
    failure: str | None = None

    @property
    def branch(self) -> BranchName:
        return self.name.branch


def judge(name: staging_names.StagingName, standing: Standing, *, now: float, older_than: float) -> Finding:
    age = None if name.made_at is None else max(0.0, now - name.made_at)
    return Finding(name, age, _over(name, standing) or _old(age, older_than))


def _over(name: staging_names.StagingName, standing: Standing) -> str | None:
    match standing:
        case Unasked():
            return None
        case Unknown():
            return "Conductor no longer knows its task"
        case Snapshot():
            if standing.status not in UNFINISHED_TASK:
                return f"its attempt is over: {standing.status}"
            if standing.workflow_status not in ACTIVE_WORKFLOW:
                return f"its workflow is over: {standing.workflow_status}"
            return None if standing.retry_count == name.retry_count else "a later attempt has taken its place"


def _old(age: float | None, older_than: float) -> str | None:
    return "it is older than the bound" if age is not None and age > older_than else None


def find(
    lake: lake_port.Lake,
    conductor: conductor_port.Conductor | None,
    repository: Repository,
    *,
    now: float,
    older_than: float,
) -> list[Finding]:
    """Every staging branch of the repository that Perago named; without a Conductor only age counts."""
    branches = [branch.name for branch in lake.branches(repository, staging_names.PREFIX)]
    return [judge(name, _ask(conductor, name), now=now, older_than=older_than) for name in _named(branches)]


def delete(lake: lake_port.Lake, repository: Repository, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The orphans among them deleted one by one; one that cannot be is no reason to keep the others."""
    for finding in findings:
        yield finding if finding.orphaned is None else _deleted(lake, repository, finding)


def _deleted(lake: lake_port.Lake, repository: Repository, finding: Finding) -> Finding:
    try:
        lake.delete_branch(repository, finding.branch)
    except LakeNotFound:
        return replace(finding, is_deleted=True)
    except LakeError as error:
        return replace(finding, failure=str(error))
    return replace(finding, is_deleted=True)


def _named(branches: Iterable[BranchName]) -> Iterator[staging_names.StagingName]:
    for branch in branches:
        name = staging_names.parse(branch)
        if name is not None:
            yield name


def _ask(conductor: conductor_port.Conductor | None, name: staging_names.StagingName) -> Standing:
    if conductor is None or name.workflow_id is None or name.task_id is None:
        return Unasked()
    try:
        return conductor.snapshot(name.workflow_id, name.task_id)
    except ConductorNotFound:
        return Unknown()
