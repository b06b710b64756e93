"""A repository with one target branch for one scenario, and the workflows that publish to it."""

import contextlib
import textwrap
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from perago.certify import contract
from perago.certify.contract import Json
from perago.certify.team import Team
from perago.certify.waiting import PATIENCE_SECONDS
from perago.errors import ConductorError, LakeError
from perago.model import BranchName, Commit, CommitId, ObjectPath, Repository, WorkflowId, WorkspaceRef
from perago.operate import import_folder
from perago.operate.protocol_check.dict_task import upload
from perago.operate.servers import Servers

MAIN = BranchName("main")
TARGET = BranchName("target")
_SEED = ObjectPath("seed/kept")
_ACTIVE = frozenset({"RUNNING", "PAUSED"})
_HISTORY = 20
_CLEAN_UP_SECONDS = 10.0
_REASON_LENGTH = 300


@dataclass
class Scene:
    """`base` is the input of the attempts: the commit at which the target branch begins."""

    servers: Servers
    team: Team
    task_type: str
    repository: Repository
    base: CommitId = field(init=False)
    runs: list["Run"] = field(default_factory=list["Run"])

    def open(self, namespace: str) -> None:
        """Make the repository, with its objects below the namespace, or where lakeFS keeps them by default."""
        settings, default = self.servers.settings, import_folder.default_namespace
        place = f"{namespace.rstrip('/')}/{self.repository}" if namespace else default(self.servers, self.repository)
        settings.create_repository(self.repository, place, MAIN)
        upload(self.servers.lake, self.repository, MAIN, _SEED, b"kept by every task\n")
        self.base = self.servers.lake.commit_branch(self.repository, MAIN, "seed", {}).id
        settings.create_branch(self.repository, TARGET, self.base)

    def close(self) -> None:
        """End and remove what the scenario made, whatever became of it."""
        for run in self.runs:
            with contextlib.suppress(ConductorError):
                run.remove()
        with contextlib.suppress(LakeError):
            self.servers.settings.delete_repository(self.repository)

    # workflows

    def start(
        self, text: str = "one line\n", *, branch: BranchName = TARGET, response: int = contract.LONG_RESPONSE_SECONDS
    ) -> "Run":
        """A workflow whose only step has `base` as its input and writes the text."""
        given = contract.task_input(WorkspaceRef(self.repository, branch, self.base), text)
        body = {
            "name": self.repository,
            "version": 1,
            "workflowDef": contract.workflow_definition(self.repository, self.task_type, given, response),
            "input": {},
            "correlationId": f"certify-{uuid.uuid4().hex}",
            "taskToDomain": {self.task_type: self.team.domain},
        }
        self.runs.append(Run(self, WorkflowId(str(self.servers.workflows.api.write("POST", "/workflow", body=body)))))
        return self.runs[-1]

    # the target branch

    def head(self) -> Commit:
        return self.servers.lake.head(self.repository, TARGET)

    def history(self) -> list[CommitId]:
        """The commits of the target branch after `base`, by first parents, the oldest first."""
        newest = [commit.id for commit in self.servers.settings.history(self.repository, TARGET, _HISTORY)]
        return list(reversed(newest[: newest.index(self.base)] if self.base in newest else newest))

    def written(self) -> int:
        """How many executions left their object at the head; -1 if an object of the input is gone."""
        found = [info.path for info in self.servers.lake.objects(self.repository, TARGET, "").objects]
        return sum(path.startswith(contract.FOLDER) for path in found) if _SEED in found else -1

    def commit_by_hand(self) -> CommitId:
        """On the target branch, without labels."""
        upload(self.servers.lake, self.repository, TARGET, "by-hand", b"written by a person\n")
        return self.servers.lake.commit_branch(self.repository, TARGET, "made by hand", {}).id

    def describe(self) -> str:
        """The history, and which of its commits Conductor accepted."""
        accepted = {commit for run in self.runs for commit in run.accepted()}
        shown = [f"{commit[:12]} ({'accepted' if commit in accepted else 'not accepted'})" for commit in self.history()]
        lost = [f"{commit[:12]} was accepted and is not there" for commit in accepted - {self.base, *self.history()}]
        return "; ".join([" → ".join([f"history: input {self.base[:12]}", *shown]), *lost])

    def leftovers(self) -> list[BranchName]:
        """Branches besides those of the scenario. Workers get a moment to remove theirs."""

        def found() -> list[BranchName]:
            listed = self.servers.lake.branches(self.repository, "")
            return [branch.name for branch in listed if branch.name not in (MAIN, TARGET)]

        self.team.patience.has_come(lambda: not found(), _CLEAN_UP_SECONDS)
        return found()


@dataclass(frozen=True)
class Run:
    """One workflow."""

    scene: Scene
    id: WorkflowId

    @property
    def _servers(self) -> Servers:
        return self.scene.servers

    def read(self) -> Json:
        return self._servers.workflows.read(self.id) or {}

    def attempts(self) -> Sequence[Json]:
        """In the order in which Conductor scheduled them."""
        return sorted(self.read().get("tasks") or (), key=lambda task: task["seq"])

    def accepted(self) -> list[CommitId]:
        """The commits that the completed tasks name."""
        done = [task for task in self.attempts() if task["status"] == "COMPLETED"]
        return [commit for task in done if (commit := contract.accepted_commit(task)) is not None]

    def ended(self, within: float = PATIENCE_SECONDS) -> str:
        """The final status. Asks Conductor to evaluate timeouts now, because it does so late on its own."""

        def final() -> str:
            self.scene.team.revive()
            with contextlib.suppress(ConductorError):
                self._servers.conductor.decide(self.id)
            status = str(self.read().get("status"))
            return "" if status in _ACTIVE else status

        return self.scene.team.patience.until(final, "the end of the workflow", within)

    def outcome(self) -> str:
        """The statuses of the attempts and the last reason, as evidence."""
        attempts = self.attempts()
        reasons = [str(task["reasonForIncompletion"]) for task in attempts if task.get("reasonForIncompletion")]
        told = f"; last reason: {textwrap.shorten(reasons[-1], _REASON_LENGTH, placeholder=' …')}" if reasons else ""
        return f"attempts: {', '.join(str(task['status']) for task in attempts)}{told}"

    def terminate(self) -> None:
        self._servers.workflows.terminate(self.id, "perago certify")

    def rerun(self) -> None:
        """Hand out the task again: the same task id, with the same retry count."""
        body = {"reRunFromWorkflowId": self.id, "reRunFromTaskId": self.attempts()[-1]["taskId"]}
        self._servers.workflows.api.write("POST", f"/workflow/{self.id}/rerun", body=body)

    def remove(self) -> None:
        if str(self.read().get("status")) in _ACTIVE:
            self.terminate()
        self._servers.workflows.api.write("DELETE", f"/workflow/{self.id}/remove", query={"archiveWorkflow": "false"})
