"""Reporting of outcomes: what is sent in which case, what is never sent, and the resulting delivery."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from perago.conductor import reporting
from perago.conductor.port import Polled, Snapshot
from perago.errors import ConductorError, ConductorNotFound, ConductorRejected, ConductorUnavailable, ConductorUnknown, TaskStatus
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import Attempt, Outcome, TaskId, TaskType, WorkerId, WorkflowId

TYPE = TaskType("t")
NEXT = WorkerId("w0001-n2")
DONE = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 3}})


@dataclass
class Clock:
    """A clock that advances only in `sleep`."""

    now: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


class Faulty(FakeConductor):
    """Runs one scripted fault per report or read, in order; None lets it pass."""

    def __init__(self, **faults: list[Callable[[], None] | None]) -> None:
        super().__init__()
        self.faults = faults
        self.reports = 0
        self.decisions = 0

    def _fault(self, verb: str) -> None:
        script = self.faults.get(verb)
        fault = script.pop(0) if script else None
        if fault is not None:
            fault()

    def task(self, task_id: TaskId) -> Snapshot:
        self._fault("task")
        return super().task(task_id)

    def decide(self, workflow_id: WorkflowId) -> None:
        self.decisions += 1
        self._fault("decide")

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        self.reports += 1
        self._fault("report")
        super().report(attempt, outcome, timeout=timeout)
        self._fault("reply")

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        self._fault("combined")
        found = super().report_and_poll(attempt, outcome, worker_id, timeout=timeout)
        self._fault("combined reply")
        return found


@dataclass
class WaitingSlot:
    """A slot that waits for the next task, and records what it is given."""

    poll: reporting.NextPoll = field(default_factory=lambda: reporting.NextPoll(TYPE, NEXT))

    @property
    def told(self) -> Polled | BaseException | None:
        return self.poll.reply.exception(timeout=0) or self.poll.reply.result(timeout=0)[0]


def fail(error: Exception) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


def polled(server: FakeConductor) -> Attempt:
    server.start([WorkflowStep(TYPE, "ref")])
    task = server.poll(TYPE, WorkerId("w0001-n1"), wait_seconds=0)
    assert task is not None
    return task.attempt


def deliver(
    server: FakeConductor, attempt: Attempt, outcome: Outcome = DONE, deadline: float = 30.0, waiting: WaitingSlot | None = None
) -> reporting.Delivery:
    clock, next_poll = Clock(), None if waiting is None else waiting.poll
    return reporting.deliver(
        server, attempt, outcome, deadline=deadline, request_timeout=5, next_poll=next_poll, clock=clock, sleep=clock.sleep
    )


@pytest.mark.parametrize(
    ("seconds", "decide", "decisions"),
    [(0.3, [], 0), (0.6, [], 1), (0.6, [0.6], 2), (0.6, [0.6] * 9, 3), (0.6, [ConductorUnavailable("away")] * 9, 3)],
)
def test_workflow_is_looked_at_again_after_a_report_that_may_have_waited_for_its_lock(
    seconds: float, decide: list[float | Exception], decisions: int
) -> None:
    clock = Clock()
    server = Faulty(reply=[lambda: clock.sleep(seconds)])
    server.faults["decide"] = [fail(one) if isinstance(one, Exception) else (lambda one=one: clock.sleep(one)) for one in decide]
    delivery = reporting.deliver(server, polled(server), DONE, deadline=30, request_timeout=5, clock=clock, sleep=clock.sleep)
    assert (delivery, server.decisions) == (reporting.Accepted(sent=1), decisions)


def deliver_unread(server: FakeConductor, attempt: Attempt) -> reporting.Delivery:
    clock = Clock()
    return reporting.deliver(server, attempt, DONE, deadline=30, request_timeout=5, unread=True, clock=clock, sleep=clock.sleep)


def test_unread_spares_both_reads_of_a_report_that_was_answered() -> None:
    server = Faulty(task=[fail(AssertionError("a read"))] * 2)
    assert deliver_unread(server, polled(server)) == reporting.Accepted(sent=1)


@pytest.mark.parametrize("fault", ["report", "reply"])
def test_unread_reads_after_a_report_without_an_answer(fault: str) -> None:
    server = Faulty(task=[fail(AssertionError("read before the report"))])
    server.faults[fault] = [lambda: (server.faults["task"].clear(), fail(ConductorUnknown("broke off"))())[1]]
    assert deliver_unread(server, polled(server)) == reporting.Accepted(sent={"report": 2, "reply": 1}[fault])


def test_unread_looks_at_the_workflow_again_after_a_slow_report() -> None:
    clock = Clock()
    server = Faulty(reply=[lambda: clock.sleep(0.6)])
    reporting.deliver(server, polled(server), DONE, deadline=30, request_timeout=5, unread=True, clock=clock, sleep=clock.sleep)
    assert server.decisions == 1


def test_checked_spares_the_read_before_the_first_report_only() -> None:
    server, clock = Faulty(task=[fail(ConductorUnavailable("away")), lambda: None]), Clock()
    delivery = reporting.deliver(
        server, polled(server), DONE, deadline=30, request_timeout=5, checked=True, clock=clock, sleep=clock.sleep
    )
    assert delivery == reporting.Accepted(sent=1)
    assert server.faults["task"] == []


def test_checked_does_not_report_a_second_time_for_an_execution_after_a_rerun() -> None:
    server, clock = Faulty(report=[fail(ConductorUnavailable("away"))]), Clock()
    first = polled(server)
    server.terminate(first.workflow_id)
    server.rerun(first.workflow_id, first.task_id)
    assert server.poll(first.task_type, WorkerId("other"), wait_seconds=0) is not None
    delivery = reporting.deliver(
        server, first, DONE, deadline=30, request_timeout=5, checked=True, clock=clock, sleep=clock.sleep
    )
    assert isinstance(delivery, reporting.Superseded)
    assert server.tasks[first.task_id].status == "IN_PROGRESS"


def test_a_lost_reply_is_read_back_and_not_sent_again() -> None:
    server = Faulty(reply=[fail(ConductorUnknown("broke off"))])
    assert deliver(server, polled(server)) == reporting.Accepted(sent=1)
    assert server.reports == 1


def test_a_lost_request_is_sent_again() -> None:
    server = Faulty(report=[fail(ConductorUnknown("broke off")), fail(ConductorUnavailable("503"))])
    assert deliver(server, polled(server)) == reporting.Accepted(sent=3)


def test_a_completion_erased_by_an_overlapping_heartbeat_is_sent_again() -> None:
    server = Faulty()
    attempt = polled(server)
    erased: list[bool] = []

    def heartbeat_across_the_completion() -> None:
        """The heartbeat has read the row already when the completion writes it."""
        if not erased:
            erased.append(True)
            row = server.tasks[attempt.task_id]
            server.between = lambda: None
            server.faults["reply"] = [lambda: server.tasks.__setitem__(attempt.task_id, row)]

    server.between = heartbeat_across_the_completion
    # The fake's workflow is not over, as on the real server when the erased completion was not its last step.
    server._workflow(attempt.workflow_id).steps = [WorkflowStep(TYPE, "ref"), WorkflowStep(TYPE, "next")]
    assert deliver(server, attempt) == reporting.Accepted(sent=2)


def test_reads_are_repeated_until_one_tells() -> None:
    server = Faulty(task=[None, fail(ConductorUnavailable("down")), fail(ConductorUnavailable("down"))])
    assert deliver(server, polled(server)) == reporting.Accepted(sent=1)
    assert server.reports == 1


def test_nothing_is_sent_to_an_attempt_that_timed_out() -> None:
    server = Faulty()
    attempt = polled(server)
    server.expire(attempt.task_id)
    assert deliver(server, attempt) == reporting.Superseded("the task is TIMED_OUT")
    assert server.reports == 0


def test_nothing_is_sent_to_a_workflow_that_is_gone() -> None:
    server = Faulty()
    attempt = polled(server)
    server.tasks.clear()
    assert deliver(server, attempt) == reporting.Superseded("Conductor no longer has the task")


def test_a_task_stuck_in_progress_in_a_workflow_that_ended_is_given_up() -> None:
    server = Faulty()
    attempt = polled(server)
    row = server.tasks[attempt.task_id]
    server.terminate(attempt.workflow_id)
    server.tasks[attempt.task_id] = row
    assert deliver(server, attempt) == reporting.Superseded("its workflow is TERMINATED")


def test_nothing_is_sent_after_the_deadline() -> None:
    server = Faulty()
    attempt = polled(server)
    assert deliver(server, attempt, deadline=0.1) == reporting.Unknown("the lease ended first")
    assert server.reports == 0


def test_an_outage_until_the_deadline_is_unknown_and_names_the_trouble() -> None:
    server = Faulty(task=[fail(ConductorUnavailable("connection refused"))] * 1000)
    attempt = polled(server)
    assert deliver(server, attempt, deadline=20) == reporting.Unknown("connection refused")
    assert server.reports == 0


def test_what_conductor_will_never_take_is_passed_on() -> None:
    server = Faulty(report=[fail(ConductorRejected("413"))])
    with pytest.raises(ConductorRejected):
        deliver(server, polled(server))


def test_an_optional_task_that_failed_counts_as_taken() -> None:
    server = Faulty()
    attempt = polled(server)
    failed = Outcome(TaskStatus.FAILED, None, "no")
    server.report(attempt, failed, timeout=1)
    row = server.tasks[attempt.task_id]
    object.__setattr__(row, "status", "COMPLETED_WITH_ERRORS")
    assert deliver(server, attempt, failed) == reporting.Accepted(sent=0)


def test_first_report_is_sent_with_the_next_poll() -> None:
    server, waiting = Faulty(), WaitingSlot()
    attempt = polled(server)
    server.start([WorkflowStep(TYPE, "next")])
    assert deliver(server, attempt, waiting=waiting) == reporting.Accepted(sent=1)
    found = waiting.told
    assert isinstance(found, Polled)
    assert (found.attempt.reference_name, found.attempt.worker_id) == ("next", NEXT)


def test_lost_reply_to_a_report_with_poll_reaches_the_slot_and_the_result_still_counts() -> None:
    lost, waiting = ConductorUnknown("broke off"), WaitingSlot()
    server = Faulty()
    server.faults["combined reply"] = [fail(lost)]
    attempt = polled(server)
    assert deliver(server, attempt, waiting=waiting) == reporting.Accepted(sent=1)
    assert server.tasks[attempt.task_id].worker_id == NEXT
    assert waiting.told is lost


@pytest.mark.parametrize("error", [ConductorUnknown("cut"), ConductorUnavailable("503")])
def test_second_report_is_sent_without_poll(error: ConductorError) -> None:
    server, waiting = Faulty(combined=[fail(error), fail(AssertionError("once"))]), WaitingSlot()
    assert deliver(server, polled(server), waiting=waiting) == reporting.Accepted(sent=2)
    assert waiting.told is error


def test_server_without_the_combined_request_gets_the_plain_one() -> None:
    """Such a server replies as if it did not know the task."""
    server, waiting = Faulty(combined=[fail(ConductorNotFound("no such address"))]), WaitingSlot()
    assert deliver(server, polled(server), waiting=waiting) == reporting.Accepted(sent=2)
    assert waiting.told is None


def test_refused_report_is_no_outage_for_the_waiting_slot() -> None:
    server, waiting = Faulty(combined=[fail(ConductorRejected("413"))]), WaitingSlot()
    with pytest.raises(ConductorRejected):
        deliver(server, polled(server), waiting=waiting)
    assert waiting.told is None


def test_slot_does_not_wait_until_conductor_can_be_read_again() -> None:
    server, waiting = Faulty(task=[fail(ConductorUnavailable("down"))]), WaitingSlot()
    attempt = polled(server)
    server.start([WorkflowStep(TYPE, "next")])
    assert deliver(server, attempt, waiting=waiting) == reporting.Accepted(sent=1)
    assert waiting.told is None
    assert [row.status for row in server.tasks.values()] == ["COMPLETED", "SCHEDULED"]


def test_superseded_attempt_does_not_poll() -> None:
    server, waiting = Faulty(), WaitingSlot()
    attempt = polled(server)
    server.expire(attempt.task_id)
    server.start([WorkflowStep(TYPE, "next")])
    assert isinstance(deliver(server, attempt, waiting=waiting), reporting.Superseded)
    assert waiting.told is None
    assert server.tasks[attempt.task_id].worker_id != NEXT


NAMING = Outcome(TaskStatus.COMPLETED, {"workspace": {"ref": "ours"}, "result": {}})


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({"output": {"workspace": {"ref": "theirs"}, "result": {}}}, "theirs"),
        ({"output": {"workspace": {"ref": "theirs"}, "result": {}}, "worker_id": WorkerId("another")}, "theirs"),
        ({"output": {"workspace": {"ref": "ours"}, "result": {}}, "poll_count": 2}, "ours"),
        ({"output": {"result": {"rows": 1}}}, None),
        ({"status": "IN_PROGRESS", "poll_count": 2}, None),
        ({"status": "FAILED", "output": {"workspace": {"ref": "theirs"}}}, None),
        ({"status": "TIMED_OUT"}, None),
    ],
)
def test_an_attempt_that_was_superseded_is_told_the_commit_that_counts(changes: dict[str, Any], accepted: str | None) -> None:
    server = FakeConductor()
    attempt = polled(server)
    server.report(attempt, NAMING, timeout=1)
    seen = server.snapshot(attempt.workflow_id, attempt.task_id)
    assert reporting.judge(attempt, NAMING, seen) is True
    verdict = reporting.judge(attempt, NAMING, replace(seen, **changes))
    assert isinstance(verdict, reporting.Superseded)
    assert verdict.accepted == accepted
