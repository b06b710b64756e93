"""Finds and deletes branches of lanes and joins whose workflow is over.

Age alone is no reason as long as Conductor knows the workflow: a lane may wait for days.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from perago.builtin import lane_branches
from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound, LakeError
from perago.lake import port as lake_port
from perago.model import BranchName, Repository, WorkflowId
from perago.protocol import lane_names
from perago.protocol.statuses import ENDED_WORKFLOW


@dataclass(frozen=True, slots=True)
class LaneFinding:
    """One branch. `orphaned` says why it may go, None that it has to stay; `failure` why it is still there."""

    name: lane_names.LaneName
    age_seconds: float | None
    orphaned: str | None
    is_deleted: bool = False
    failure: str | None = None

    @property
    def branch(self) -> BranchName:
        return self.name.branch


def find(
    lake: lake_port.Lake,
    conductor: conductor_port.Conductor | None,
    repository: Repository,
    *,
    now: float,
    older_than: float,
) -> list[LaneFinding]:
    """Every branch of a lane or a join; those that cannot be asked about go by their age."""
    found = lane_branches.find(lake, repository)
    statuses = _statuses(conductor, {name.workflow_id for name in found if name.workflow_id is not None})
    return [_judged(name, statuses, now=now, older_than=older_than) for name in found]


def delete(lake: lake_port.Lake, repository: Repository, findings: Iterable[LaneFinding]) -> Iterator[LaneFinding]:
    """Delete the orphaned ones, one by one; a failure does not stop the others."""
    for finding in findings:
        yield finding if finding.orphaned is None else _deleted(lake, repository, finding)


def _deleted(lake: lake_port.Lake, repository: Repository, finding: LaneFinding) -> LaneFinding:
    try:
        lane_branches.delete(lake, repository, [finding.branch])
    except LakeError as error:
        return replace(finding, failure=str(error))
    return replace(finding, is_deleted=True)


def _judged(name: lane_names.LaneName, statuses: dict[WorkflowId, str | None], *, now: float, older_than: float) -> LaneFinding:
    age = None if name.made_at is None else max(0.0, now - name.made_at)
    if name.workflow_id is not None and name.workflow_id in statuses:
        return LaneFinding(name, age, _over(statuses[name.workflow_id]))
    is_old = age is not None and age > older_than
    return LaneFinding(name, age, "it is older than the bound" if is_old else None)


def _over(status: str | None) -> str | None:
    if status is None:
        return "Conductor no longer knows its workflow"
    return f"its workflow is over: {status}" if status in ENDED_WORKFLOW else None


def _statuses(conductor: conductor_port.Conductor | None, workflows: Iterable[WorkflowId]) -> dict[WorkflowId, str | None]:
    """By workflow; None for one that Conductor does not know. Empty without a Conductor."""
    return {} if conductor is None else {workflow_id: _status(conductor, workflow_id) for workflow_id in workflows}


def _status(conductor: conductor_port.Conductor, workflow_id: WorkflowId) -> str | None:
    try:
        return conductor.workflow_status(workflow_id)
    except ConductorNotFound:
        return None
