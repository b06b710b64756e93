"""Poll, run and report with a fake Conductor: which requests are made, and which are not."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import pytest

from perago import ipc
from perago.conductor import reporting
from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, TaskStatus
from perago.events import Event
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import (
    Attempt,
    CommitId,
    ExecutionId,
    Outcome,
    Snapshot,
    TaskId,
    TaskType,
    WorkerId,
    WorkflowId,
)
from perago.process.exit_status import ExitStatus
from perago.supervisor import recorder
from perago.supervisor.context import BlockingCalls, WorkerContext
from perago.supervisor.poller import Poller, PollTarget
from perago.supervisor.reporter import FENCED_SECONDS, FRESH_SECONDS, Reporter
from perago.supervisor.shutdown import Shutdown
from perago.supervisor.slot import Slot
from perago.supervisor.slot_loop import serve_slot
from perago.supervisor.supervised_attempt import SupervisedAttempt

TYPE = TaskType("type")
FACTS = ipc.TaskFacts("module", TYPE, False, {"name": TYPE}, 60.0, 15.0, 30.0)
DONE = Outcome(TaskStatus.COMPLETED, {"result": {"n": 1}})


class CountingConductor(FakeConductor):
    def __init__(self) -> None:
        super().__init__()
        self.extended = self.polls = self.reads = 0
        self.emptied = threading.Event()
        """Set when a poll has found nothing."""
        self.reported = threading.Event()
        """Set when a report was processed."""
        self.refuse_hand_back = False

    def report(self, attempt: Attempt, outcome: Outcome, *, timeout: float) -> None:
        super().report(attempt, outcome, timeout=timeout)
        self.reported.set()

    def extend_lease(self, attempt: Attempt) -> None:
        self.extended += 1
        super().extend_lease(attempt)

    def task(self, task_id: TaskId) -> Snapshot:
        self.reads += 1
        return super().task(task_id)

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        self.polls += 1
        found = super().poll(task_type, worker_id, wait_seconds=wait_seconds)
        if found is None:
            self.emptied.set()
        return found

    def report_and_poll(self, attempt: Attempt, outcome: Outcome, worker_id: WorkerId, *, timeout: float) -> Polled | None:
        self.polls -= 1
        return super().report_and_poll(attempt, outcome, worker_id, timeout=timeout)

    def hand_back(self, attempt: Attempt) -> None:
        if self.refuse_hand_back:
            raise ConductorUnavailable("down")
        super().hand_back(attempt)


class Worker:
    """The parts of a worker beside its executors."""

    def __init__(self, server: FakeConductor, pool: ThreadPoolExecutor, group: asyncio.TaskGroup, facts: ipc.TaskFacts) -> None:
        calls, self.shutdown = BlockingCalls(server, pool), Shutdown(lambda: None)
        self.observed: list[recorder.WorkerEvent] = []
        self.context = WorkerContext(calls, {TYPE: facts}, self.observed.append, self.shutdown, group)
        # With more than one slot, polls are sent with reports.
        self.poller = Poller(calls, [PollTarget(TYPE)], 2, self.shutdown, self.observed.append, lambda *_: None)
        self.reporter = Reporter(self.context, 1, lambda _: None, restore_nothing, lambda: None)

    def attempt(self, polled: Polled, *, since_poll: float = 0.0) -> SupervisedAttempt:
        polled_at = asyncio.get_running_loop().time() + since_poll
        return SupervisedAttempt(polled, polled_at, ExecutionId("e"), self.context, lambda *_: None)

    async def serve(self, slot: "FakeSlot") -> None:
        await serve_slot(cast("Slot", slot), self.context, self.poller, self.reporter)

    @property
    def deliveries(self) -> list[reporting.Delivery]:
        return [event.delivery for event in self.observed if isinstance(event, recorder.AttemptReported)]


def restore_nothing(_attempt: SupervisedAttempt, _accepted: CommitId) -> list[Event]:
    return []


@contextlib.asynccontextmanager
async def worker(server: FakeConductor, facts: ipc.TaskFacts = FACTS) -> AsyncGenerator[Worker]:
    """All its reports have ended when it is left."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        async with asyncio.TaskGroup() as group:
            yield Worker(server, pool, group, facts)


def with_worker(
    server: FakeConductor, work: Callable[[Worker], Awaitable[None]], facts: ipc.TaskFacts = FACTS
) -> list[reporting.Delivery]:
    """Run `work` with a worker; returns the deliveries of its reports."""

    async def main() -> Worker:
        async with worker(server, facts) as made:
            await work(made)
        return made

    return asyncio.run(main()).deliveries


def poll_once(server: FakeConductor, nonce: str = "a") -> Polled:
    found = server.poll(TYPE, WorkerId(nonce), wait_seconds=0)
    assert found is not None
    return found


def rerun(server: FakeConductor, workflow: WorkflowId, attempt: Attempt) -> Polled:
    """Terminated, run again and handed out to another poll: the same ids."""
    server.terminate(workflow)
    server.rerun(workflow, attempt.task_id)
    return poll_once(server, "b")


@pytest.mark.parametrize(
    ("facts", "since_poll"), [(replace(FACTS, needs_lake=True), 0.0), (FACTS, -FRESH_SECONDS)], ids=["publishes", "not fresh"]
)
def test_result_is_not_reported_for_the_execution_after_a_rerun(facts: ipc.TaskFacts, since_poll: float) -> None:
    server = FakeConductor()
    workflow = server.start([WorkflowStep(TYPE, "it")])

    async def work(made: Worker) -> None:
        first = poll_once(server)
        attempt = made.attempt(first, since_poll=since_poll)
        rerun(server, workflow, first.attempt)
        assert isinstance(await made.reporter.deliver(attempt, DONE), reporting.Superseded)

    with_worker(server, work, facts)
    (task,) = server.tasks.values()
    assert (task.status, task.worker_id) == ("IN_PROGRESS", "b")


def test_fence_does_not_extend_the_lease_of_another_execution() -> None:
    server = CountingConductor()
    workflow = server.start([WorkflowStep(TYPE, "it")])

    async def work(made: Worker) -> None:
        first = poll_once(server)
        assert (await made.attempt(first, since_poll=-3000.0).fence()).worker_id == "a"
        assert server.extended == 1
        rerun(server, workflow, first.attempt)
        assert (await made.attempt(first, since_poll=-3000.0).fence()).worker_id == "b"
        assert server.extended == 1

    with_worker(server, work)


def test_cancel_counts_once_and_not_after_the_outcome() -> None:
    server = FakeConductor()
    server.start([WorkflowStep(TYPE, "it")])

    async def work(made: Worker) -> None:
        polled = poll_once(server)
        cancelled, finished = made.attempt(polled), made.attempt(polled)
        cancelled.cancel("first reason")
        cancelled.cancel("second reason")
        finished.finish(DONE)
        finished.cancel("too late")
        assert (cancelled.cancel_reason, finished.cancel_reason) == ("first reason", None)
        assert [event for event in made.observed if isinstance(event, recorder.CancelRequested)] == [
            recorder.CancelRequested(polled.attempt, ExecutionId("e"), "first reason")
        ]

    with_worker(server, work)


@pytest.mark.parametrize("since_fence", [0.0, FENCED_SECONDS], ids=["just passed", "passed before"])
def test_task_is_not_read_again_right_after_a_fence_that_passed(since_fence: float) -> None:
    server = CountingConductor()
    server.start([WorkflowStep(TYPE, "it")])

    async def work(made: Worker) -> None:
        attempt = made.attempt(poll_once(server))
        await attempt.fence()
        attempt.fenced_at -= since_fence
        server.reads = 0
        attempt.finish(DONE)
        assert await made.reporter.deliver(attempt, DONE) == reporting.Accepted(sent=1)
        assert server.reads == (2 if since_fence else 1)

    with_worker(server, work, replace(FACTS, needs_lake=True))


@pytest.mark.parametrize("dies", [False, True])
def test_result_of_a_publication_is_reported_while_the_executor_cleans_up(*, dies: bool) -> None:
    server = CountingConductor()
    workflow = server.start([WorkflowStep(TYPE, "it")])
    cleaned_up: list[SupervisedAttempt] = []

    async def work(made: Worker) -> None:
        attempt = made.attempt(poll_once(server))
        reporter = Reporter(made.context, 1, cleaned_up.append, restore_nothing, lambda: None)
        attempt.handle_message(ipc.Completed(ExecutionId("e"), DONE))
        reporter.start("s0001", attempt, attempt.outcome.result(), None)
        await made.context.calls.run(server.reported.wait, 30.0)
        assert server.workflow_status(workflow) == "COMPLETED"
        assert (made.deliveries, cleaned_up) == ([], [])
        if dies:
            attempt.lose_executor(ExitStatus(-9), attempt.outcome.result())
        else:
            attempt.handle_message(ipc.Finished(ExecutionId("e"), DONE))

    assert with_worker(server, work, replace(FACTS, needs_lake=True)) == [reporting.Accepted(sent=1)]
    assert len(cleaned_up) == dies


class FakeSlot:
    """A slot that is ready once, and whose executor completes every attempt."""

    def __init__(self, *, can_run: bool) -> None:
        self.name, self.can_run, self.turns, self.ran = "s0001", can_run, 1, 0

    async def ready(self) -> bool:
        self.turns -= 1
        return self.turns >= 0

    async def run(self, attempt: SupervisedAttempt) -> Outcome:
        self.ran += 1
        attempt.finish(DONE)
        return DONE

    async def settle(self, attempt: SupervisedAttempt) -> None:
        pass

    def send(self, execution_id: ExecutionId, message: ipc.ToExecutor) -> None:
        pass

    async def close(self) -> None:
        pass


def serve_one(server: FakeConductor, slot: FakeSlot) -> None:
    """One poll, and what follows of it."""

    async def work(made: Worker) -> None:
        polls = 0

        async def poll(
            slot: str, can_run: Callable[[], bool], sent: reporting.NextPoll | None = None
        ) -> tuple[Polled, float] | None:
            del can_run
            nonlocal polls
            polls += 1
            return await Poller.next(made.poller, slot, lambda: polls == 1, sent)

        made.poller.next = poll
        await made.serve(slot)

    with_worker(server, work)


def test_input_in_external_storage_fails_the_task_at_once_and_says_what_to_do() -> None:
    server = FakeConductor()
    server.start([WorkflowStep(TYPE, "it", {"params": {}}, input_is_elsewhere=True)])
    slot = FakeSlot(can_run=True)
    serve_one(server, slot)
    (task,) = server.tasks.values()
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "external payload storage" in (task.reason or "")
    assert "taskInputPayloadSizeThreshold" in (task.reason or "")
    assert slot.ran == 0


def test_task_for_an_executor_that_ended_during_the_poll_is_handed_back() -> None:
    server = CountingConductor()
    server.start([WorkflowStep(TYPE, "it")])
    slot = FakeSlot(can_run=False)
    serve_one(server, slot)
    (task,) = server.tasks.values()
    assert (task.status, slot.ran) == ("SCHEDULED", 0)


def test_task_that_cannot_be_handed_back_waits_for_the_next_executor() -> None:
    server = CountingConductor()
    server.refuse_hand_back = True
    server.start([WorkflowStep(TYPE, "it")])
    slot = FakeSlot(can_run=False)
    serve_one(server, slot)
    (task,) = server.tasks.values()
    assert (task.status, slot.ran) == ("COMPLETED", 1)


def test_full_queue_is_emptied_by_one_poll_and_the_reports() -> None:
    server = CountingConductor()
    for _ in range(5):
        server.start([WorkflowStep(TYPE, "it")])

    async def work(made: Worker) -> None:
        serving = asyncio.create_task(made.serve(FakeSlot(can_run=True)))
        await asyncio.to_thread(server.emptied.wait, 30)
        made.shutdown.drain()
        await serving

    assert with_worker(server, work) == [reporting.Accepted(sent=1)] * 5
    assert server.polls <= 2, "the first, and one after the last report had found nothing"


def test_defect_in_background_work_is_logged_and_does_not_cancel_the_slots() -> None:
    async def broken() -> None:
        raise AssertionError("a defect")

    async def work(made: Worker) -> None:
        await made.context.start(broken())
        (failed,) = made.observed
        assert isinstance(failed, recorder.BackgroundFailed)
        assert "AssertionError: a defect" in failed.traceback

    with_worker(FakeConductor(), work)


@pytest.mark.parametrize("text", ["half of a pair \ud800"])
def test_input_with_a_lone_surrogate_cannot_be_encoded(text: str) -> None:
    attempt = Attempt(WorkflowId("w"), TaskId("t"), 0, "it", 1, 0, TYPE, WorkerId("n"), 1, 1)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        ipc.encode_for_executor(ipc.Run(Polled(attempt, {"params": {"x": text}}, 60.0), ExecutionId("e"), 1.0))
