"""Finds branches of lanes and joins whose workflow is over.

Age alone is no reason as long as Conductor knows the workflow: a lane may wait for days.
"""

from collections.abc import Iterable

from perago.attempt import branch_gc
from perago.attempt.branch_gc import BranchFinding
from perago.builtin import lane_branches
from perago.conductor import port as conductor_port
from perago.errors import ConductorNotFound
from perago.lake import port as lake_port
from perago.model import Repository, WorkflowId
from perago.protocol import lane_names
from perago.protocol.statuses import ENDED_WORKFLOW

LaneFinding = BranchFinding[lane_names.LaneName]


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


def _judged(name: lane_names.LaneName, statuses: dict[WorkflowId, str | None], *, now: float, older_than: float) -> LaneFinding:
    age = branch_gc.age(name, now)
    if name.workflow_id is not None and name.workflow_id in statuses:
        return BranchFinding(name, age, _over(statuses[name.workflow_id]))
    return BranchFinding(name, age, branch_gc.too_old(age, older_than))


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
