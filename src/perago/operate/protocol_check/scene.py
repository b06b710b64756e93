"""One target branch on any lake, a Conductor in memory, and attempts that write there."""

import itertools
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from perago.attempt import port, transaction
from perago.attempt.execution import Execution
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import WorkflowStep
from perago.in_memory.lake import MAIN
from perago.lake.port import Lake
from perago.model import Attempt, BranchName, Commit, CommitId, Outcome, Repository, TaskType, WorkerId, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask, DictWorkspace, Files, upload, workspace_input
from perago.protocol import staging_names

TASK = TaskType("step")
SECONDS = 30.0
"""The time limit of one request that moves the target branch."""


def _nothing() -> None:
    pass


class Tap:
    """A lake whose calls are preceded by `before` and followed by `after`, by verb; these may act or raise."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.before.get(verb, _nothing)()
            answer = getattr(self._lake, verb)(*args, **kwargs)
            if verb in {"branches", "uncommitted"}:
                # Listings are read lazily: a call is only over when its last page is here, or the first where it is small.
                answer = list(itertools.islice(cast("Iterable[object]", answer), kwargs.get("page")))
            self.after.get(verb, _nothing)()
            return answer

        return call


@dataclass
class Scene:
    """A branch that holds a first publication, `a`, the input of the attempts to come. They work under `prefix`."""

    lake: Lake
    repository: Repository
    branch: BranchName = MAIN
    prefix: str = "in/"
    conductor: FakeConductor = field(default_factory=FakeConductor)
    a: CommitId = field(init=False)

    def __post_init__(self) -> None:
        self.a = self.publish({f"{self.prefix}x": secrets.token_bytes(4), "other": b"outside"}).id

    # the branch

    @property
    def tap(self) -> Tap:
        return Tap(self.lake)

    def target(self) -> WorkspaceRef:
        return WorkspaceRef(self.repository, self.branch, self.a)

    def publish(self, files: dict[str, bytes], branch: BranchName | None = None) -> Commit:
        """A commit without labels, made directly on the branch."""
        for path, data in files.items():
            upload(self.lake, self.repository, branch or self.branch, path, data)
        return self.lake.commit_branch(self.repository, branch or self.branch, "made by hand", {})

    def abandon(self) -> Commit:
        """A publication on the input that Conductor never heard of."""
        return self.publish({f"{self.prefix}x": b"abandoned " + secrets.token_bytes(4)})

    def renew(self) -> None:
        """A fresh input, so that what was done before does not matter any more."""
        self.a = self.publish({f"{self.prefix}round": secrets.token_bytes(8)}).id

    def head(self) -> Commit:
        return self.lake.head(self.repository, self.branch)

    def merge(self, source: BranchName) -> None:
        self.lake.merge(self.repository, source, self.branch, message="smoke", metadata={}, timeout=SECONDS)

    def relocate(self, source: BranchName) -> None:
        self.lake.relocate(self.repository, self.branch, source, timeout=SECONDS)

    def own_staging_branches(self) -> list[BranchName]:
        """Those of the target branch."""
        return [found.name for found in self.lake.branches(self.repository, staging_names.target_prefix(self.branch))]

    # Conductor

    def start(self) -> Polled:
        """A workflow with one step; its first attempt."""
        self.conductor.start([WorkflowStep(TASK, "s0", workspace_input(self.target()))])
        return self.poll()

    def poll(self) -> Polled:
        polled = self.conductor.poll(TASK, WorkerId(f"w-{secrets.token_hex(4)}"), wait_seconds=0)
        if polled is None:
            raise AssertionError("there is nothing to poll")
        return polled

    def retry(self, polled: Polled) -> Polled:
        """Conductor gives the attempt up and hands out the next."""
        self.conductor.expire(polled.attempt.task_id)
        return self.poll()

    def report(self, polled: Polled, outcome: Outcome) -> bool:
        """As the worker does it, and whether Conductor took it for this attempt's."""
        self.conductor.report(polled.attempt, outcome, timeout=1)
        row = self.conductor.tasks[polled.attempt.task_id]
        return row.status == outcome.status.value and row.worker_id == polled.attempt.worker_id

    # attempts

    def execution(self, attempt: Attempt, task: port.Task, lake: Any = None) -> Execution:
        used = lake or self.lake
        return Execution(
            attempt,
            staging_names.execution_id(0, secrets.token_bytes(8)),
            task,
            used,
            DirectFence(self.conductor),
            lambda ref: DictWorkspace(used, ref, self.prefix),
        )

    def run(self, polled: Polled, task: port.Task, lake: Any = None) -> Outcome:
        return transaction.run(self.execution(polled.attempt, task, lake), polled.input)


def writes(path: str) -> DictTask:
    """A task that writes something else each time."""

    def body(workspace: Files) -> None:
        workspace[path] = secrets.token_bytes(8)

    return DictTask(body)


def ref_of(outcome: Outcome) -> CommitId:
    """The commit that a completed attempt's output names."""
    if outcome.output is None:
        raise AssertionError(outcome.reason)
    workspace: Any = outcome.output["workspace"]
    return CommitId(workspace["ref"])
