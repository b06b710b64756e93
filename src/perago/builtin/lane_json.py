"""The workspace of a lane in the input and the output of the built-in tasks."""

from typing import Literal, Self

from pydantic import BaseModel, Field

from perago.model import BranchName, CommitId, Repository, WorkspaceRef


class LaneWorkspace(BaseModel):
    """As any workspace in Conductor's input and output."""

    repository: str = Field(min_length=1)
    branch: str = Field(min_length=1)
    ref_type: Literal["commit"]
    ref: str = Field(min_length=1)

    @classmethod
    def of(cls, ref: WorkspaceRef) -> Self:
        return cls(repository=ref.repository, branch=ref.branch, ref_type="commit", ref=ref.ref)

    @property
    def workspace_ref(self) -> WorkspaceRef:
        return WorkspaceRef(Repository(self.repository), BranchName(self.branch), CommitId(self.ref))
