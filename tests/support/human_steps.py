"""Human steps on the real servers: workflows that wait for a person, and the commands with which one answers."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.support.operator import MAIN, CommandResult, OperatorHarness
from tests.support.waiting import eventually

from perago import Flow, WorkspaceSpec, forbid_glob, pipeline, require_glob
from perago.model import BranchName, CommitId, TaskId, WorkflowId, WorkspaceRef
from perago.pipelines import compiler
from perago.pipelines.flow import pipeline_of

OWNER = "tests@example.com"
SPEC = WorkspaceSpec(prefix="/prices", pre=[require_glob("*.csv")], post=[forbid_glob("**/*.tmp")])


class Question(BaseModel):
    total: int


class Decision(BaseModel):
    approved: bool
    note: str = ""


class Inputs(BaseModel):
    total: int = 3


class Note(BaseModel):
    note: str


@pipeline(name="tests.human", owner_email=OWNER)
def editing(flow: Flow, inputs: Inputs) -> Note:
    decision = flow.human("review", Question, Decision, workspace=SPEC, total=inputs.total)
    return Note(note=decision.note)


@pipeline(name="tests.human.reading", owner_email=OWNER)
def reading(flow: Flow, inputs: Inputs) -> Note:
    decision = flow.human("review", Question, Decision, workspace=WorkspaceSpec(read_only=True), total=inputs.total)
    return Note(note=decision.note)


@pipeline(name="tests.human.asking", owner_email=OWNER)
def asking(flow: Flow, inputs: Inputs) -> Note:
    decision = flow.human("review", Question, Decision, total=inputs.total)
    return Note(note=decision.note)


@dataclass(frozen=True)
class WaitingStep:
    """A workflow at its human step."""

    harness: OperatorHarness
    workflow: WorkflowId
    task: TaskId

    def perago(self, command: str, *arguments: str, user: str = "alice") -> CommandResult:
        self.harness.environment["PERAGO_USER"] = user
        return self.harness.perago(command, *arguments)

    def checkout(self, name: str = "") -> Path:
        folder = self.harness.folder / (name or f"checkout-{secrets.token_hex(4)}")
        said = self.perago("checkout", self.task, str(folder))
        assert said.code == 0, said.err
        return folder

    def publish(self, folder: Path, *options: str, user: str = "alice") -> CommandResult:
        return self.perago("publish", str(folder), "--result", '{"approved": true}', *options, user=user)

    def json(self) -> Mapping[str, Any]:
        return self.harness.real.call("GET", f"/tasks/{self.task}")

    @property
    def status(self) -> str:
        return str(self.json()["status"])

    def require_waiting(self) -> None:
        assert self.status == "IN_PROGRESS"
        assert self.harness.staging_branches() == []

    def require_completed(self, commit: CommitId, by: str = "alice") -> None:
        """The task and the branch say the same, and nothing is left behind."""
        task = self.json()
        assert task["status"] == "COMPLETED"
        assert (task["outputData"]["workspace"]["ref"], task["outputData"]["by"]) == (commit, by)
        assert self.harness.head().id == commit
        assert self.harness.staging_branches() == []
        eventually(lambda: self.harness.real.workflow_status(self.workflow) == "COMPLETED", within=10)


def start(
    harness: OperatorHarness, function: Any = editing, ref: CommitId | None = None, branch: BranchName = MAIN
) -> WaitingStep:
    """A workflow whose first task waits for a person."""
    declared = pipeline_of(function)
    assert declared is not None
    made = compiler.workflow(declared)
    workspace = WorkspaceRef(harness.repository, branch, ref or harness.head().id)
    given = {"total": 3, **({"workspace": workspace.as_json()} if declared.has_workspace else {})}
    workflow = harness.real.start_workflow(made["tasks"], given)
    return WaitingStep(harness, workflow, waiting_task(harness, workflow))


def waiting_task(harness: OperatorHarness, workflow: WorkflowId) -> TaskId:
    def found() -> TaskId:
        tasks = harness.real.call("GET", f"/workflow/{workflow}?includeTasks=true")["tasks"]
        ids = [task["taskId"] for task in tasks if task["taskType"] == "HUMAN" and task["status"] == "IN_PROGRESS"]
        return TaskId(ids[-1] if ids else "")

    return eventually(found, within=20, what="a task that waits for a person")


def prices(harness: OperatorHarness) -> CommitId:
    """A branch with something to edit."""
    harness.write("prices/a.csv", b"1")
    harness.write("prices/sub/b.csv", b"2")
    return harness.by_hand("elsewhere/c.csv", b"3")
