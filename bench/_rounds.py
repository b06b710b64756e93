"""Rounds of workflows that compete for one branch on a real lakeFS and a real Conductor, with pauses before their requests.

The attempts run in threads of this process, through the real clients and the code that an executor runs; only the workspace is a
dictionary. Each round has its own branch. The requests of each attempt to both servers are recorded in order, to explain a round
with a violation.
"""

import itertools
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.conductor_sites import RealConductorSite, nonce

from perago.attempt import transaction
from perago.attempt.execution import Execution
from perago.attempt.rival_wait import LONGEST, Patience
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import AttemptFence, Polled
from perago.errors import TaskStatus
from perago.lake.port import BranchHead, Lake
from perago.model import (
    Attempt,
    BranchName,
    Commit,
    CommitId,
    Outcome,
    Repository,
    Snapshot,
    TaskId,
    TaskType,
    WorkflowId,
    WorkspaceRef,
)
from perago.operate.protocol_check.dict_task import DictTask, DictWorkspace, Files
from perago.protocol import staging_names

PATIENCE = 60.0
DECIDE_SECONDS = 3.0
"""After this time without a task, Conductor is asked to evaluate the workflows: a task is sometimes missing from its queue."""
POLL_SECONDS = 0.05
HORIZON = 50
"""An attempt is given up before a random one of its first `HORIZON` requests; most attempts make fewer, and are not given up."""
PUBLISH_SHARE = 0.7
MOVES_BRANCH = frozenset({"merge", "relocate"})
_UNFINISHED = frozenset({"RUNNING", "PAUSED"})


@dataclass(frozen=True)
class Step:
    line: str
    only_look: bool = False


@dataclass(frozen=True)
class Pauses:
    """Pauses before requests: up to `seconds`, with a probability of `share`.

    Before a request that moves the branch, where a pause can cause a race: up to `publish_seconds`, with a probability of
    `PUBLISH_SHARE`.
    """

    share: float
    seconds: float
    publish_seconds: float


@dataclass(frozen=True)
class Scenario:
    name: str
    workflows: Callable[[random.Random], Sequence[Sequence[Step]]]
    pauses: Pauses
    is_abandoned: Callable[[random.Random], bool]
    """Whether the branch shows a publication that Conductor did not accept when the workflows start."""
    gives_up: bool = False
    """Whether Conductor sometimes gives up an attempt of a workflow, which continues nevertheless."""


class Stalled(Exception):
    """Conductor does not continue the workflows of the round."""


@dataclass
class Round:
    """The result of a round. `lost`: accepted commits that are not in the history of the branch. `story`: requests in order."""

    scenario: str
    number: int
    ended: dict[str, str] = field(default_factory=dict[str, str])
    accepted: int = 0
    lost: list[str] = field(default_factory=list[str])
    attempts: int = 0
    reasons: list[str] = field(default_factory=list[str])
    story: list[str] = field(default_factory=list[str])

    @property
    def has_winner(self) -> bool:
        return "COMPLETED" in self.ended.values()


# rules, switched off


class ListsEarly:
    """Rule 2 switched off: an attempt lists rivals when it starts, before it has a staging branch."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._listed: dict[str, list[BranchHead]] = {}

    def branch(self, repository: Repository, branch: BranchName) -> CommitId:
        """The first request of an attempt: also list the rivals."""
        for prefix in (staging_names.target_prefix(branch), staging_names.PREFIX):
            self._listed[prefix] = list(self._lake.branches(repository, prefix))
        return self._lake.branch(repository, branch)

    def branches(self, _repository: Repository, prefix: str, *, page: int = 0) -> Sequence[BranchHead]:
        del page
        return self._listed[prefix]

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._lake, verb)


@dataclass(frozen=True)
class VerifiesNothing:
    """Rule 1 switched off: the task that made the head counts as one that Conductor did not accept."""

    fence: AttemptFence

    def snapshot(self, attempt: Attempt) -> Snapshot:
        return self.fence.snapshot(attempt)

    def look_up(self, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Snapshot:
        """Only the task of the head is looked up without its workflow."""
        found = self.fence.look_up(task_id, workflow_id)
        return found if workflow_id is not None else replace(found, status="TIMED_OUT")

    def lease_seconds_left(self) -> float:
        return self.fence.lease_seconds_left()


def _same(found: Any) -> Any:
    return found


@dataclass(frozen=True)
class Rules:
    """How an attempt sees the two servers."""

    name: str
    lake: Callable[[Lake], Any] = _same
    fence: Callable[[AttemptFence], AttemptFence] = _same


ALL_RULES = Rules("all rules")
WITHOUT_RULE_1 = Rules("without rule 1", fence=VerifiesNothing)
WITHOUT_RULE_2 = Rules("without rule 2", lake=ListsEarly)


# one attempt


class PausedServer:
    """Passes requests on to a server: calls `before` ahead of each one, and `log` with each request and reply."""

    def __init__(self, server: Any, before: Callable[[str], None], log: Callable[[str], None]) -> None:
        self._server, self._before, self._log = server, before, log

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        called = getattr(self._server, verb)
        if verb == "lease_seconds_left":
            return called

        def call(*args: Any, **named: Any) -> Any:
            self._before(verb)
            self._log(f"{verb} {_named(args)} ...")
            try:
                answer = called(*args, **named)
                if verb in {"branches", "uncommitted"}:
                    # Listings are read lazily; a caller that asks for a page of a few names needs only those.
                    answer = list(itertools.islice(answer, named.get("page")))
            except BaseException as error:
                self._log(f"{verb}: {type(error).__name__} {error}")
                raise
            self._log(f"{verb}: {_shown(answer)}")
            return answer

        return call


def _named(args: Sequence[Any]) -> str:
    return " ".join(str(one)[-40:] for one in args[1:3] if isinstance(one, str))


def _shown(answer: Any) -> str:
    if isinstance(answer, Commit):
        return f"{answer.id[:12]} on {[parent[:12] for parent in answer.parents]}"
    if isinstance(answer, Snapshot):
        return f"task {answer.task_id[:8]} {answer.status}, workflow {answer.workflow_status or 'not read'}"
    return str(answer)[:200]


@dataclass
class Driver:
    """Plays one round: its branch and its workflows, until all of them have ended."""

    lake: Lake
    real: RealConductorSite
    repository: Repository
    base: CommitId
    task_type: TaskType
    rules: Rules
    scenario: Scenario
    dice: random.Random
    round: Round
    branch: BranchName = field(init=False)
    began: float = field(default_factory=time.monotonic)
    polled_at: float = field(default_factory=time.monotonic)
    given_up: set[WorkflowId] = field(default_factory=set[WorkflowId])
    workflows: list[WorkflowId] = field(default_factory=list[WorkflowId])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    errors: list[BaseException] = field(default_factory=list[BaseException])

    def __post_init__(self) -> None:
        self.branch = BranchName(f"round-{secrets.token_hex(6)}")

    # the round

    def play(self) -> Round:
        self.lake.create_branch(self.repository, self.branch, self.base)
        if self.scenario.is_abandoned(self.dice):
            self._abandon()
        workflows = [self._start(steps) for steps in self.scenario.workflows(self.dice)]
        first = [self._take() for _ in workflows]
        for polled in first:
            self._begin(polled)
        deadline = time.monotonic() + PATIENCE
        while self._unfinished(workflows):
            if time.monotonic() > deadline:
                raise Stalled("workflows do not end")
            polled = self._poll()
            if polled is not None:
                self._begin(polled)
        for thread in self.threads:
            thread.join(PATIENCE)
        if self.errors:
            raise self.errors[0]
        self._check(workflows)
        self.lake.delete_branch(self.repository, self.branch)
        return self.round

    def _unfinished(self, workflows: Sequence[WorkflowId]) -> list[str]:
        statuses = {workflow: self.real.workflow_status(workflow) for workflow in workflows}
        self.round.ended = {workflow[:8]: status for workflow, status in statuses.items()}
        return [status for status in statuses.values() if status in _UNFINISHED]

    def _start(self, steps: Sequence[Step]) -> WorkflowId:
        given: Any = WorkspaceRef(self.repository, self.branch, self.base).as_json()
        tasks: list[dict[str, Any]] = []
        for number, step in enumerate(steps):
            inputs = {"workspace": given, "params": {"line": step.line, "only_look": step.only_look}}
            tasks.append({"name": self.task_type, "taskReferenceName": f"s{number}", "type": "SIMPLE", "inputParameters": inputs})
            given = f"${{s{number}.output.workspace}}"
        self.workflows.append(self.real.start_workflow(tasks))
        return self.workflows[-1]

    def _take(self) -> Polled:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            polled = self._poll()
            if polled is not None:
                return polled
        raise Stalled("Conductor hands out no task")

    def _poll(self) -> Polled | None:
        """Poll for a task of this round; None if there is none at the moment."""
        polled = self.real.client.poll(self.task_type, nonce(), wait_seconds=POLL_SECONDS)
        if polled is not None and polled.attempt.workflow_id in self.workflows:
            self.polled_at = time.monotonic()
            return polled
        if time.monotonic() - self.polled_at > DECIDE_SECONDS:
            self.polled_at = time.monotonic()
            for workflow in self.workflows:
                self.real.call("PUT", f"/workflow/decide/{workflow}")
        return None

    def give_up(self) -> None:
        """End everything after `Stalled`, so that nothing of this round affects the next one."""
        for workflow in self.workflows:
            if self.real.workflow_status(workflow) in _UNFINISHED:
                self.real.terminate(workflow)
        for thread in self.threads:
            thread.join(PATIENCE)
        self.lake.delete_branch(self.repository, self.branch)

    def _abandon(self) -> None:
        """Run a workflow whose only attempt publishes and is then reported as failed with a terminal error."""
        self._start([Step("abandoned")])
        polled = self._take()
        outcome = self._run(polled, self.lake, DirectFence(self.real.client))
        if outcome.status is not TaskStatus.COMPLETED:
            raise AssertionError(outcome.reason)
        failed = Outcome(TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason="reported as failed although it has published")
        self.real.client.report(polled.attempt, failed, timeout=20)

    # attempts

    def _begin(self, polled: Polled) -> None:
        self.round.attempts += 1
        own_pauses = AttemptPauses(self, polled, random.Random(self.dice.random()))
        thread = threading.Thread(target=self._attempt, args=(polled, own_pauses))
        self.threads.append(thread)
        thread.start()

    def _attempt(self, polled: Polled, own_pauses: "AttemptPauses") -> None:
        try:
            lake = PausedServer(self.rules.lake(self.lake), own_pauses.before, own_pauses.log)
            fence = PausedServer(self.rules.fence(DirectFence(self.real.client)), own_pauses.before, own_pauses.log)
            outcome = self._run(polled, lake, fence)
            own_pauses.before("report")
            self.real.client.report(polled.attempt, outcome, timeout=20)
            own_pauses.log(f"reported {outcome.status.value} {outcome.reason or outcome.output}")
        except BaseException as error:  # noqa: BLE001  the round raises it
            self.errors.append(error)

    def _run(self, polled: Polled, lake: Any, fence: Any) -> Outcome:
        params: Any = polled.input["params"]

        def body(files: Files) -> None:
            if not params["only_look"]:
                files[params["line"]] = secrets.token_bytes(8)

        execution = Execution(
            polled.attempt,
            staging_names.execution_id(time.time(), secrets.token_bytes(8)),
            DictTask(body),
            lake,
            fence,
            lambda ref: DictWorkspace(lake, ref),
            patience=Patience(LONGEST),
        )
        return transaction.run(execution, polled.input)

    # the end

    def _check(self, workflows: Sequence[WorkflowId]) -> None:
        shown = self._history()
        for workflow in workflows:
            for task in self.real.call("GET", f"/workflow/{workflow}?includeTasks=true")["tasks"]:
                if task["status"] != "COMPLETED":
                    self.round.reasons.append(f"{task['status']}: {task.get('reasonForIncompletion') or 'no reason'}")
                    continue
                ref = str(task["outputData"]["workspace"]["ref"])
                self.round.accepted += 1
                if ref not in shown:
                    self.round.lost.append(f"{ref[:12]} of workflow {workflow[:8]} {task['referenceTaskName']}")
        self.round.story.append(f"history at the end: {' <- '.join(commit[:12] for commit in shown)}")

    def _history(self) -> list[str]:
        commit = self.lake.head(self.repository, self.branch)
        found = [str(commit.id)]
        while commit.id != self.base and commit.first_parent is not None:
            commit = self.lake.commit(self.repository, commit.first_parent)
            found.append(commit.id)
        return found


@dataclass
class AttemptPauses:
    """The pauses of one attempt, and the request before which Conductor gives it up (0: never)."""

    driver: Driver
    polled: Polled
    dice: random.Random
    requests: int = 0
    given_up_at: int = field(init=False)

    def __post_init__(self) -> None:
        self.given_up_at = self.dice.randrange(1, HORIZON) if self.driver.scenario.gives_up else 0

    def before(self, verb: str) -> None:
        self.requests += 1
        pauses = self.driver.scenario.pauses
        workflow = self.polled.attempt.workflow_id
        if self.requests == self.given_up_at and workflow not in self.driver.given_up:
            self.driver.given_up.add(workflow)
            self._give_up()
            time.sleep(self.dice.uniform(0, pauses.publish_seconds))
        elif verb in MOVES_BRANCH and self.dice.random() < PUBLISH_SHARE:
            time.sleep(self.dice.uniform(0, pauses.publish_seconds))
        elif self.dice.random() < pauses.share:
            time.sleep(self.dice.uniform(0, pauses.seconds))

    def _give_up(self) -> None:
        """End the task as a timeout does: Conductor schedules a retry, and the attempt is not notified."""
        outcome = Outcome(TaskStatus.FAILED, reason="given up")
        self.driver.real.client.report(self.polled.attempt, outcome, timeout=20)
        self.log("given up by Conductor")

    def log(self, text: str) -> None:
        attempt = self.polled.attempt
        at = time.monotonic() - self.driver.began
        who = f"{attempt.workflow_id[:8]} {attempt.reference_name} try {attempt.retry_count}"
        self.driver.round.story.append(f"{at:8.4f} {who} {text}")
