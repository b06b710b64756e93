"""A draft that a person approves, or edits, before it reaches the branch."""

from pydantic import BaseModel
from tests.support.tasks.chain.controls import OWNER, PREFIX
from tests.support.tasks.chain.write_inner import write_inner

from perago import Flow, WorkspaceSpec, pipeline, require_file


class Question(BaseModel):
    lines: int


class Decision(BaseModel):
    note: str = ""


@pipeline(name=f"{PREFIX}.reviewed", owner_email=OWNER)
def reviewed(flow: Flow) -> Decision:
    with flow.fork() as fork, fork.lane("draft"):
        written = flow.step(write_inner, file="draft.txt", text="proposal")
        workspace = WorkspaceSpec(prefix="/inner", post=[require_file("draft.txt")])
        return flow.human("review", Question, Decision, workspace=workspace, lines=written.lines)
