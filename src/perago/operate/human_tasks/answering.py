"""Ends a human step: publishes what a person edited, or nothing, and reports the answer to Conductor.

It is an attempt of the step's task and runs through the same transaction as one of a worker. What Conductor knows less of a task
that no worker polls for is made up for by `perago.attempt.person`.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perago import errors, events
from perago.attempt import instrumentation, port, transaction
from perago.attempt.execution import Execution
from perago.attempt.person import REPORT_SECONDS, Person
from perago.attempt.restore import Restoration
from perago.attempt.rival_wait import LONGEST, Patience
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor import reporting
from perago.conductor.direct_fence import DirectFence
from perago.declare import checks
from perago.declare.human_form import HumanForm
from perago.errors import ConductorUnknown, PeragoError, StaleAttemptError, TaskFailed, TaskStatus
from perago.model import CommitId, ExecutionId, Listing, Outcome, TaskInput, WorkspaceRef
from perago.operate.branch_move import PUBLISH_SECONDS
from perago.operate.human_tasks.checkout import Checkout
from perago.operate.human_tasks.waiting import HumanTask
from perago.operate.human_tasks.workspaces import CheckoutWorkspace, UnchangedWorkspace
from perago.operate.servers import Servers
from perago.protocol import decision, staging_names

BY = "by"
"""The field of the task's output that names the person."""
_SETTLE_SECONDS = 1.0
"""Conductor lets the last of two reports that overlap win. Both are stored within milliseconds."""
_REFUSED = frozenset({"PublishFenceError", "WorkspaceError"})


def _boot_time() -> float:
    """Seconds; they go on while a laptop sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says: the result, or the reason of a rejection."""

    result: object = field(default_factory=dict[str, Any])
    rejection: str | None = None


@dataclass(frozen=True, slots=True)
class AnsweredTask:
    """Implements `perago.attempt.port.Task`: the person has done the work already."""

    form: HumanForm
    question: Mapping[str, Any]
    workspace: WorkspaceRef | None
    answer: Answer

    @property
    def read_only(self) -> bool:
        return not self.form.publishes

    @property
    def prepares_publication(self) -> bool:
        return False

    def accept(self, task_input: Mapping[str, Any]) -> TaskInput:
        del task_input  # read before
        return TaskInput(self.workspace, self.question)

    def check_before(self, listing: Listing) -> None:
        if self.answer.rejection is None:
            self.form.check_before(listing)

    def data_checks(self, when: checks.When) -> port.DataChecks:
        """None: a form has checks of files only."""
        del when
        return port.DataChecks()

    def refuse(self, violations: Sequence[str], when: checks.When, log: Sequence[str]) -> None:
        checks.refuse(violations, when, tuple(log))

    def body(self, workspace: object, params: object) -> object:
        del workspace, params
        return self.answer.result

    def result(self, returned: object) -> Mapping[str, Any]:
        return {} if self.answer.rejection is not None else self.form.answer(returned)

    def check_after(self, listing: Listing) -> None:
        if self.answer.rejection is None:
            self.form.check_after(listing)


@dataclass(frozen=True, slots=True)
class Answering:
    """One execution of a human step's task. `checkout` is the folder with the person's files, None if nothing was edited."""

    servers: Servers
    task: HumanTask
    person: Person
    answer: Answer
    unlabelled: decision.UnlabelledHead
    checkout: Checkout | None = None
    emit: events.Emit = events.ignore
    clock: Callable[[], float] = _boot_time
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> Outcome:
        """The outcome that Conductor accepted. Raises what the attempt failed with; the task then waits as before."""
        execution = self._execution()
        outcome = transaction.run(execution, self.task.input)
        if outcome.error is None:
            return outcome
        if self.answer.rejection is not None and outcome.error in _REFUSED:
            # Nothing has to be published to reject, so it does not matter what the branch has become.
            return self._conclude(execution.id, lambda: True, outcome)
        raise _error(outcome)

    def _execution(self) -> Execution:
        given = self.task.read()
        execution_id = self._execution_id()
        return Execution(
            attempt=self.task.attempt,
            id=execution_id,
            task=AnsweredTask(given.form, given.question, given.workspace, self.answer),
            lake=self.servers.lake,
            conductor=DirectFence(self.servers.conductor),
            workspaces=lambda ref: self._workspace(ref, given.form),
            emit=self.emit,
            unlabelled=self.unlabelled,
            patience=Patience(LONGEST, sleep=self.sleep),
            person=self.person,
            conclude=lambda is_announced, ended: self._conclude(execution_id, is_announced, ended),
        )

    def _execution_id(self) -> ExecutionId:
        if self.checkout is not None:
            return self.checkout.execution_id(time.time())
        return ExecutionId(staging_names.execution_id(time.time(), os.urandom(8)) + staging_names.PERSON)

    def _workspace(self, ref: WorkspaceRef, form: HumanForm) -> port.AttemptWorkspace:
        if self.checkout is None:
            return UnchangedWorkspace(self.servers.lake, ref, form)
        return CheckoutWorkspace(self.servers.lake, ref, self.checkout, self.emit)

    # report

    def _conclude(self, execution: ExecutionId, is_announced: Callable[[], bool], ended: Outcome) -> Outcome:
        """Report while the staging branch exists, so that of several people only one does."""
        deadline = self.clock() + REPORT_SECONDS
        if not is_announced():
            raise StaleAttemptError("another publication of this task, or of another step, took this one's right; run it again")
        outcome = self._outcome(ended)
        delivery = reporting.deliver(
            self.servers.conductor,
            self.task.attempt,
            outcome,
            deadline=deadline,
            request_timeout=REPORT_SECONDS,
            clock=self.clock,
            sleep=self.sleep,
        )
        if isinstance(delivery, reporting.Accepted) and not self.task.read().form.publishes:
            delivery = self._settled(outcome, delivery)
        match delivery:
            case reporting.Accepted():
                return outcome
            case reporting.Superseded(reason, accepted):
                self._restore(execution, outcome, accepted)
                raise StaleAttemptError(f"task {self.task.id} is over: {reason}")
            case reporting.Unknown(reason):
                raise ConductorUnknown(
                    f"whether Conductor completed task {self.task.id} is unknown ({reason}); run the command again"
                )

    def _outcome(self, ended: Outcome) -> Outcome:
        if self.answer.rejection is not None:
            reason = f"rejected by {self.person.name}: {self.answer.rejection}"
            return Outcome(TaskStatus.FAILED_WITH_TERMINAL_ERROR, None, reason)
        return replace(ended, output={**(ended.output or {}), BY: self.person.name})

    def _settled(self, outcome: Outcome, delivery: reporting.Delivery) -> reporting.Delivery:
        """Without a branch to announce itself on, two people may report at once: read again which of them Conductor has."""
        self.sleep(_SETTLE_SECONDS)
        seen = self.servers.conductor.task(self.task.id)
        verdict = reporting.judge(self.task.attempt, outcome, seen)
        return verdict if isinstance(verdict, reporting.Superseded) else delivery

    def _restore(self, execution: ExecutionId, outcome: Outcome, accepted: CommitId | None) -> None:
        """Conductor has completed the task with another commit; put that one back if this execution's stands in its place."""
        workspace = self.task.read().workspace
        if accepted is None or workspace is None or outcome.output is None or not self.task.read().form.publishes:
            return
        recorder = instrumentation.EffectRecorder(self.emit, time.monotonic)
        staging = Staging(self.servers.lake, recorder, self.task.attempt, execution, workspace)
        branch = TargetBranch(
            self.servers.lake, DirectFence(self.servers.conductor, lease=0), recorder, self.task.attempt, workspace
        )
        Restoration(staging, branch, PUBLISH_SECONDS).restore(accepted)


def _error(outcome: Outcome) -> PeragoError:
    """The error that the transaction turned into an outcome."""
    kind = getattr(errors, outcome.error or "", None)
    made = kind if isinstance(kind, type) and issubclass(kind, PeragoError) else TaskFailed
    return made(outcome.reason or "the task could not be done")


def new_person(name: str, *, take_over: bool, checkout: Checkout | None = None) -> Person:
    if checkout is None:
        return Person(name, take_over=take_over)
    return Person(name, checkout.has_ended, take_over=take_over)
