"""`perago.join`: what the lanes of a fork changed becomes one change of the workspace before the fork."""

from pydantic import BaseModel, Field

from perago.builtin import names
from perago.builtin.lane_json import LaneWorkspace
from perago.declare.lanes import Lanes
from perago.declare.task import task
from perago.declare.workspace_spec import WorkspaceSpec


class JoinParams(BaseModel):
    lanes: dict[str, LaneWorkspace] = Field(max_length=names.MOST_LANES)
    """The workspace that the last step of each lane left, by the name of the lane."""


class JoinResult(BaseModel):
    """Nothing: the workspace is the result."""


@task(
    name=names.JOIN,
    owner_email=names.OWNER,
    description="Publish what the lanes of a fork changed as one commit.",
    workspace=WorkspaceSpec(),
    controls=names.CONTROLS,
)
def join(workspace: Lanes, params: JoinParams) -> JoinResult:
    workspace.join({name: lane.workspace_ref for name, lane in params.lanes.items()})
    return JoinResult()
