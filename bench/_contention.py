"""Workflows that compete for one branch, and the history of that branch for the linearizability checker.

Each lane runs one workflow after the other. The input of a workflow is a weighted random choice (`KINDS`): the newest commit that
Conductor accepted, as a careful user chooses it; the head, accepted or not; an outdated commit; the same input for two workflows;
or one input for a fork of two writers. Most of these can only be refused. In every case the accepted steps have to be an
append-only list, and the branch has to show that list.
"""

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from bench import _linearizability as lin
from tests.support.worker_harness import GROW, WorkerHarness

from perago.model import Commit, CommitId, WorkflowId

LANES = 4
"""The number of workflows, or pairs of workflows with the same input, that run at the same time."""
MAX_STEPS = 3
RETRIES = "3"
PAUSE_SECONDS = "0.6"
DEATH_SHARE = "0.15"
NO_CHANGE_SHARE = 0.2
STALE_DEPTH = 6
KINDS = {"newest accepted": 6, "head": 2, "stale": 2, "same twice": 3, "fork": 3}
COMPLETED = "COMPLETED"
TASK_LABEL = "perago.task_id"
_UNFINISHED_WORKFLOW = frozenset({"RUNNING", "PAUSED"})
_VARIABLE = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|conformance_\w+|\b[fs]\d\b|\d+")

Task = Mapping[str, Any]


@dataclass
class Contention:
    """One branch, the lanes that write to it, and every attempt that Conductor recorded."""

    harness: WorkerHarness
    base: CommitId
    dice: random.Random
    without_rule: str = ""
    html: Path | None = None
    """The file for Porcupine's visualisation of the history."""
    sequences: Sequence["Lane"] = field(init=False)
    attempts: list[Task] = field(default_factory=list[Task])
    started: Counter[str] = field(default_factory=Counter[str])
    ended: Counter[str] = field(default_factory=Counter[str])
    checked: dict[str, Any] = field(default_factory=dict[str, Any])

    module: ClassVar[str] = "bench._contending_task"
    jobs: ClassVar[int] = 3
    disturbances: ClassVar[Mapping[str, int]] = {"executor": 6, "supervisor": 1, "fault": 6}

    def __post_init__(self) -> None:
        self.sequences = [Lane(self) for _ in range(LANES)]

    @property
    def settings(self) -> dict[str, str]:
        """Environment variables of the workers."""
        return {
            "E2E_RETRIES": RETRIES,
            "SOAK_PAUSE": PAUSE_SECONDS,
            "SOAK_DEATH": DEATH_SHARE,
            "SOAK_WITHOUT_RULE": self.without_rule,
        }

    # starting workflows

    def start(self) -> list[WorkflowId]:
        kind = self.dice.choices(list(KINDS), list(KINDS.values()))[0]
        self.started[kind] += 1
        number = self.started.total()
        # A step without a change on an unaccepted head would be accepted with a commit that may still be replaced.
        always_changes = kind in {"head", "fork"}
        steps = self._fork(number) if kind == "fork" else self._chain(number, always_changes=always_changes)
        given = {"workspace": self.harness.workspace(self._input(kind))}
        return [self.harness.real.start_workflow(steps, given) for _ in range(2 if kind == "same twice" else 1)]

    def _chain(self, number: int, *, always_changes: bool) -> list[dict[str, Any]]:
        given, steps = "${workflow.input.workspace}", list[dict[str, Any]]()
        for at in range(self.dice.randint(1, MAX_STEPS)):
            only_look = self.dice.random() < NO_CHANGE_SHARE and not (always_changes and at == 0)
            steps.append(self.harness.step(GROW, f"s{at}", {"line": f"w{number}.s{at}", "only_look": only_look}, given))
            given = f"${{s{at}.output.workspace}}"
        return steps

    def _fork(self, number: int) -> list[dict[str, Any]]:
        """Two writers with the same input commit: at most one of them can be accepted with a change."""
        sides = [
            self.harness.step(GROW, f"f{side}", {"line": f"w{number}.f{side}"}, "${workflow.input.workspace}")
            for side in range(2)
        ]
        names = [side["taskReferenceName"] for side in sides]
        return [
            {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": [[side] for side in sides]},
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": names},
        ]

    def _input(self, kind: str) -> CommitId:
        if kind == "head":
            return self.harness.head().id
        if kind == "stale":
            near = [commit.id for commit in itertools.islice(self._branch_history(), 1 + STALE_DEPTH)]
            return self.dice.choice(near[1:] or near)
        return next(commit.id for commit in self._branch_history() if self._is_accepted(commit))

    def _branch_history(self) -> Generator[Commit]:
        """The branch from its head to the base, by first parents."""
        commit = self.harness.head()
        yield commit
        while commit.id != self.base and commit.first_parent is not None:
            commit = self.harness.site.lake.commit(self.harness.site.repository, commit.first_parent)
            yield commit

    def _is_accepted(self, commit: Commit) -> bool:
        if commit.id == self.base:
            return True
        return _output(self.harness.real.call("GET", f"/tasks/{commit.metadata[TASK_LABEL]}")) == commit.id

    # recording

    def record(self, workflow: WorkflowId, status: str) -> None:
        self.ended[status] += 1
        self.attempts += [task for task in self.harness.tasks(workflow) if task["workflowTask"]["type"] == "SIMPLE"]

    def _read_branch(self) -> lin.History:
        """The history of the branch. All workflows must have ended."""
        called = _now()
        commits = list(self._branch_history())
        read = lin.Read("final read", [commit.id for commit in reversed(commits)], called, _now())
        return history(self.base, self.attempts, read, {commit.id: commit.metadata.get(TASK_LABEL, "") for commit in commits})

    # results

    def figures(self) -> dict[str, Any]:
        steps: dict[tuple[str, str], list[Task]] = {}
        for task in self.attempts:
            steps.setdefault((task["workflowInstanceId"], task["referenceTaskName"]), []).append(task)
        accepted = [one for one in self.attempts if _output(one) is not None]
        lost = [tried for tried in steps.values() if all(_output(one) is None for one in tried)]
        return {
            "workflows started": dict(self.started),
            "workflows ended": dict(self.ended),
            "attempts": len(self.attempts),
            "steps accepted": len(accepted),
            "of these without a change": sum(_output(task) == _input(task) for task in accepted),
            "steps refused": len(lost),
            "attempts retried": sum(len(tried) - 1 for tried in steps.values()),
            "attempts not accepted, by reason": self._reasons(),
            **self.checked,
        }

    def _reasons(self) -> dict[str, int]:
        """Reasons without ids and numbers, the most frequent first."""
        failed = [task for task in self.attempts if _output(task) is None]
        texts = [f"{task['status']}: {task.get('reasonForIncompletion') or 'no reason'}" for task in failed]
        return dict(Counter(_VARIABLE.sub("#", text)[:160] for text in texts).most_common())

    def wrong(self) -> list[str]:
        """Violations. A run without any accepted change shows nothing, so that counts as a violation too."""
        happened = self._read_branch()
        verdict = lin.check(happened, html=self.html)
        on_branch = happened.last_read.commits[1:]
        self.checked = {
            "commits on the branch": len(on_branch),
            "of these not accepted": len(verdict.unaccepted),
            "the head is not accepted": happened.last_read.commits[-1] in verdict.unaccepted,
            "verdict": verdict.as_json(),
        }
        found = [f"accepted commit is missing from the branch: {commit}" for commit in verdict.missing]
        if verdict.verdict != "linearizable":
            found.append(f"the history is {verdict.verdict}: {'; '.join(verdict.explanation)}")
        if not set(on_branch) - set(verdict.unaccepted):
            found.append("the branch shows no accepted change")
        if self.harness.log_at(happened.last_read.commits[-1]) != content(happened):
            found.append("the file does not contain the line of each commit on the branch once, in order")
        self.harness.collect_garbage()
        return found + [f"staging branch left: {name}" for name in self.harness.staging_branches()]


@dataclass
class Lane:
    """Runs one workflow at a time, or two with the same input."""

    contention: Contention
    running: list[WorkflowId] = field(default_factory=list[WorkflowId])

    def start_next(self) -> int:
        self.running = self.contention.start()
        return len(self.running)

    def has_ended(self) -> bool:
        """Whether all started workflows have ended. Asks Conductor to evaluate timeouts now, which it does late on its own."""
        real = self.contention.harness.real
        for workflow in list(self.running):
            real.call("PUT", f"/workflow/decide/{workflow}")
            status = real.workflow_status(workflow)
            if status not in _UNFINISHED_WORKFLOW:
                self.running.remove(workflow)
                self.contention.record(workflow, status)
        return not self.running


def history(base: str, attempts: Sequence[Task], read: lin.Read, made_by: Mapping[str, str]) -> lin.History:
    """The accepted attempts as operations, between Conductor's start and end times, and the final read of the branch.

    A commit on the branch that Conductor did not accept becomes an operation of unknown outcome. `made_by` is the task id that
    its label names; input and start come from Conductor. A commit of no known attempt becomes no operation, and the
    checker rejects the read that shows it.
    """
    tasks = {str(task["taskId"]): task for task in attempts}
    accepted = [_operation(task, commit) for task in attempts if (commit := _output(task)) is not None]
    known = {base, *(one.output for one in accepted)}
    unaccepted = [commit for commit in read.commits if commit not in known and made_by[commit] in tasks]
    open_ended = [replace(_operation(tasks[made_by[commit]], commit), returned=None) for commit in unaccepted]
    return lin.History(base, [*accepted, *open_ended, read])


def content(happened: lin.History) -> str:
    """The expected content of the file at the end: the line of each commit on the branch, in order."""
    changes = [one for one in happened.operations if isinstance(one, lin.Publish) and one.input != one.output]
    lines = {one.output: one.name.rpartition(" ")[2] for one in changes}
    return "".join(f"{lines.get(commit, 'unknown')}\n" for commit in happened.last_read.commits[1:])


def _operation(task: Task, commit: str) -> lin.Publish:
    return lin.Publish(_name(task), _input(task), commit, task["startTime"], task["endTime"])


def _name(task: Task) -> str:
    return f"{task['workflowInstanceId'][:8]} {task['inputData']['params']['line']}"


def _input(task: Task) -> str:
    return str(task["inputData"]["workspace"]["ref"])


def _output(task: Task) -> str | None:
    """The commit that Conductor accepted; None if it accepted none."""
    return str(task["outputData"]["workspace"]["ref"]) if task["status"] == COMPLETED else None


def _now() -> int:
    """The time in milliseconds, as in Conductor."""
    return time.time_ns() // 1_000_000
