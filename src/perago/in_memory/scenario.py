"""One target branch on any lake, a Conductor in memory, and attempts that write there, for checks, benchmarks and tests."""

import itertools
import secrets
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from perago import events
from perago.attempt import port, transaction
from perago.attempt.execution import Execution
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.in_memory import attempt_parts
from perago.in_memory.conductor import FakeConductor, WorkflowStep
from perago.lake.port import Lake
from perago.model import Attempt, BranchName, Commit, CommitId, Outcome, Repository, TaskType, WorkerId, WorkspaceRef
from perago.protocol import staging_names

MAIN = BranchName("main")
TASK = TaskType("step")
Workspaces = Callable[[WorkspaceRef], port.AttemptWorkspace]


def _nothing() -> None:
    pass


class Tap:
    """A lake that tells of every call. `before` and `after`, by verb, and `at_call`, by number from 1 on, may act or raise."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.verbs: list[str] = []
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.at_call: Callable[[int], None] = lambda _number: None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.verbs.append(verb)
            self.at_call(len(self.verbs))
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
    heard: list[events.Event] = field(default_factory=list[events.Event])
    a: CommitId = field(init=False)

    def __post_init__(self) -> None:
        self.a = self.publish({f"{self.prefix}x": secrets.token_bytes(4), "other": b"outside"}).id

    # the branch

    @property
    def tap(self) -> Tap:
        return Tap(self.lake)

    def target(self, ref: CommitId | None = None) -> WorkspaceRef:
        return WorkspaceRef(self.repository, self.branch, ref or self.a)

    def publish(self, files: dict[str, bytes], branch: BranchName | None = None) -> Commit:
        """A commit without labels, made directly on the branch."""
        for path, data in files.items():
            attempt_parts.upload(self.lake, self.repository, branch or self.branch, path, data)
        return self.lake.commit_branch(self.repository, branch or self.branch, "made by hand", {})

    def abandon(self) -> Commit:
        """A publication on the input that Conductor never heard of."""
        return self.publish({f"{self.prefix}x": b"abandoned " + secrets.token_bytes(4)})

    def renew(self) -> None:
        """A fresh input, so that what was done before does not matter any more."""
        self.a = self.publish({f"{self.prefix}round": secrets.token_bytes(8)}).id

    def head(self) -> Commit:
        return self.lake.head(self.repository, self.branch)

    def content(self, ref: CommitId) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory(prefix="perago-testing-") as directory:
            for number, info in enumerate(self.lake.objects(self.repository, ref, "").objects):
                self.lake.read(self.repository, ref, info, Path(directory) / str(number))
                found[info.path] = (Path(directory) / str(number)).read_bytes()
        return found

    def staging_branches(self) -> list[BranchName]:
        return [found.name for found in self.lake.branches(self.repository, staging_names.PREFIX)]

    # Conductor

    def start(self, ref: CommitId | None = None, steps: int = 1) -> Polled:
        """A workflow whose later steps take what the one before them left; its first attempt."""
        first = WorkflowStep(TASK, "s0", attempt_parts.workspace_input(self.target(ref)))
        self.conductor.start([first, *(WorkflowStep(TASK, f"s{number}", _input_from(number - 1)) for number in range(1, steps))])
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

    def execution(self, attempt: Attempt, task: port.Task, lake: Any = None, workspaces: Workspaces | None = None) -> Execution:
        used = lake or self.lake
        return Execution(
            attempt,
            staging_names.execution_id(0, secrets.token_bytes(8)),
            task,
            used,
            DirectFence(self.conductor),
            workspaces or (lambda ref: attempt_parts.DictWorkspace(used, ref, self.prefix)),
            emit=self.heard.append,
        )

    def run(self, polled: Polled, task: port.Task, lake: Any = None, workspaces: Workspaces | None = None) -> Outcome:
        return transaction.run(self.execution(polled.attempt, task, lake, workspaces), polled.input)


def _input_from(number: int) -> Callable[[Any], Any]:
    return lambda outputs: {**outputs[f"s{number}"], "params": {}}


def writes(path: str) -> attempt_parts.DictTask:
    """A task that writes something else each time."""

    def body(workspace: attempt_parts.Files) -> None:
        workspace[path] = secrets.token_bytes(8)

    return attempt_parts.DictTask(body)


def ref_of(outcome: Outcome) -> CommitId:
    """The commit that a completed attempt's output names."""
    if outcome.output is None:
        raise AssertionError(outcome.reason)
    workspace: Any = outcome.output["workspace"]
    return CommitId(workspace["ref"])
