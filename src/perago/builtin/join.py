"""`perago.join`: what the lanes of a fork changed becomes one change of the workspace before the fork."""

import re
from typing import Any, Self

from pydantic import BaseModel, Field, model_validator

from perago.builtin import names
from perago.builtin.lane_json import LaneWorkspace
from perago.declare.lanes import Lanes
from perago.declare.task import task
from perago.declare.workspace_spec import WorkspaceSpec

_NUMBER = re.compile(r"\d+$", re.ASCII)


class LaneOutput(BaseModel):
    """The output of the step of a lane."""

    workspace: LaneWorkspace
    result: dict[str, Any] = Field(default_factory=dict[str, Any])


class JoinParams(BaseModel):
    """Either the workspace that each lane left, or the output of Conductor's JOIN task, where each lane has one step."""

    lanes: dict[str, LaneWorkspace] | None = Field(None, max_length=names.MOST_LANES)
    outputs: dict[str, LaneOutput] | None = Field(None, max_length=names.MOST_LANES)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.lanes is None) == (self.outputs is None):
            raise ValueError("give either lanes or outputs")
        return self

    @property
    def workspaces(self) -> dict[str, LaneWorkspace]:
        return self.lanes if self.lanes is not None else {name: one.workspace for name, one in self._ordered()}

    @property
    def results(self) -> list[dict[str, Any]]:
        return [one.result for _, one in self._ordered()]

    def _ordered(self) -> list[tuple[str, LaneOutput]]:
        """By the numbers at the end of the reference names."""
        return sorted((self.outputs or {}).items(), key=lambda item: (_number(item[0]), item[0]))


class JoinResult(BaseModel):
    results: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """With `outputs`, the results of the lanes' steps, ordered by the numbers at the end of their reference names."""


@task(
    name=names.JOIN,
    owner_email=names.OWNER,
    description="Publish what the lanes of a fork changed as one commit.",
    workspace=WorkspaceSpec(),
    controls=names.CONTROLS,
)
def join(workspace: Lanes, params: JoinParams) -> JoinResult:
    workspace.join({name: lane.workspace_ref for name, lane in params.workspaces.items()})
    return JoinResult(results=params.results)


def _number(reference_name: str) -> int:
    found = _NUMBER.search(reference_name)
    return int(found.group()) if found else -1
