"""`perago.fork`: one branch per lane, at the commit of the input. The workspace passes through unchanged."""

from collections import Counter
from typing import Any, Self

from pydantic import BaseModel, Field, model_validator

from perago.builtin import names
from perago.builtin.lane_json import LaneWorkspace
from perago.declare.lanes import Lanes
from perago.declare.task import task
from perago.declare.workspace_spec import WorkspaceSpec


class ForkParams(BaseModel):
    """Either the names of the lanes, or a list with one lane per item; these are named 0, 1, 2 and so on."""

    lanes: list[str] | None = Field(None, max_length=names.MOST_LANES)
    count_of: list[Any] | None = Field(None, max_length=names.MOST_LANES)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.lanes is None) == (self.count_of is None):
            raise ValueError("give either lanes or count_of")
        twice = [name for name, count in Counter(self.lanes or []).items() if count > 1]
        if twice:
            raise ValueError(f"lanes: {twice[0]!r} is there twice")
        return self

    @property
    def lane_names(self) -> list[str]:
        return self.lanes if self.lanes is not None else [str(number) for number in range(len(self.count_of or []))]


class ForkResult(BaseModel):
    lanes: dict[str, LaneWorkspace]
    """The workspace of each lane, by its name."""


@task(
    name=names.FORK,
    owner_email=names.OWNER,
    description="Create a branch for each lane of a fork.",
    workspace=WorkspaceSpec(read_only=True),
    controls=names.CONTROLS,
)
def fork(workspace: Lanes, params: ForkParams) -> ForkResult:
    made = workspace.fork(params.lane_names)
    return ForkResult(lanes={name: LaneWorkspace.of(ref) for name, ref in made.items()})
