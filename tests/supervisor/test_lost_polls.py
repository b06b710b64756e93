"""A poll whose reply is lost: the task that Conductor handed out is found and returned, long before its timeout."""

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.fault_proxy import Exchange, FaultProxy, Gone
from tests.support.waiting import eventually
from tests.support.worker_harness import PLAIN, WorkerHarness

from perago.errors import ConductorUnavailable
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import Attempt, TaskType, WorkerId
from perago.process.backoff import Backoff
from perago.supervisor import lost_polls, recorder
from perago.supervisor.context import BlockingCalls

TYPE = TaskType("type")
POLL = "GET /api/tasks/poll/"
REPORT_AND_POLL = "POST /api/tasks/update-v2"


class LaggingIndex(FakeConductor):
    """Its index is behind, or does not answer, for the first few searches."""

    def __init__(self, *, away: int = 0, behind: int = 0) -> None:
        super().__init__()
        self.away, self.behind, self.searches = away, behind, 0

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        self.searches += 1
        if self.searches <= self.away:
            raise ConductorUnavailable("down")
        return [] if self.searches <= self.away + self.behind else super().handed_out(task_type, worker_ids)


class StaleIndex(FakeConductor):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Attempt] = []

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        del task_type, worker_ids
        return self.shown


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_polls, "SEARCH_AFTER", (0.01, 0.02, 0.03))
    monkeypatch.setattr(lost_polls, "SERVER_BACKOFF", Backoff(first=0.01, longest=0.01))


def search(server: FakeConductor, *worker_ids: str) -> list[recorder.WorkerEvent]:
    """What was observed."""
    observed: list[recorder.WorkerEvent] = []

    async def work() -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            polls = lost_polls.LostPolls(BlockingCalls(server, pool), observed.append)
            for worker_id in worker_ids or ("lost",):
                polls.add(TYPE, WorkerId(worker_id))
            await asyncio.wait_for(polls.search(), 10)

    asyncio.run(work())
    return observed


def test_background_task_searches_for_polls_that_are_added_later() -> None:
    server = FakeConductor()
    server.start([WorkflowStep(TYPE, "it")])

    async def work() -> None:
        returned = asyncio.Event()
        with ThreadPoolExecutor(max_workers=4) as pool:
            polls = lost_polls.LostPolls(BlockingCalls(server, pool), lambda _: returned.set())
            running = asyncio.create_task(polls.run())
            for worker_id in ("first", "second"):
                returned.clear()
                assert server.poll(TYPE, WorkerId(worker_id), wait_seconds=0) is not None
                polls.add(TYPE, WorkerId(worker_id))
                await asyncio.wait_for(returned.wait(), 10)
            running.cancel()

    asyncio.run(work())
    assert [task.status for task in server.tasks.values()] == ["SCHEDULED"]


@pytest.mark.parametrize(("away", "behind"), [(0, 0), (5, 0), (0, 2), (2, 1)])
def test_lost_task_returns_to_its_queue_without_spending_a_retry(away: int, behind: int) -> None:
    server = LaggingIndex(away=away, behind=behind)
    server.start([WorkflowStep(TYPE, "it")])
    server.poll(TYPE, WorkerId("lost"), wait_seconds=0)
    assert len(search(server)) == 1
    (task,) = server.tasks.values()
    assert (task.status, task.retry_count) == ("SCHEDULED", 0)


def test_many_lost_polls_are_searched_together() -> None:
    server = LaggingIndex(away=20)
    server.start([WorkflowStep(TYPE, "it")])
    server.poll(TYPE, WorkerId("lost 299"), wait_seconds=0)
    assert len(search(server, *(f"lost {number}" for number in range(300)))) == 1
    # Twenty without an answer, then three for all of them.
    assert server.searches <= 26


def test_poll_lost_long_ago_is_left_to_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_polls, "LONGEST_OUTAGE", 0.1)
    server = LaggingIndex(away=10**9)
    assert search(server) == []
    assert server.searches > 1


def test_task_of_another_poll_is_not_returned_and_the_search_ends() -> None:
    server = LaggingIndex()
    server.start([WorkflowStep(TYPE, "it")])
    server.poll(TYPE, WorkerId("other"), wait_seconds=0)
    assert search(server) == []
    assert [task.status for task in server.tasks.values()] == ["IN_PROGRESS"]
    assert server.searches == 3


def test_stale_index_returns_nothing() -> None:
    """The index still shows the task as it was before a rerun gave it to another worker."""
    server = StaleIndex()
    workflow = server.start([WorkflowStep(TYPE, "it")])
    lost = server.poll(TYPE, WorkerId("lost"), wait_seconds=0)
    assert lost is not None
    server.terminate(workflow)
    server.rerun(workflow, lost.attempt.task_id)
    server.poll(TYPE, WorkerId("other"), wait_seconds=0)
    server.shown = [lost.attempt]
    assert search(server) == []
    (task,) = server.tasks.values()
    assert (task.status, task.worker_id) == ("IN_PROGRESS", "other")


class LostReply:
    """The reply of the first poll that is given a task is lost, and no other."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, exchange: Exchange) -> None:
        reply = exchange.forward()
        if b"taskId" in reply.raw and not self.done:
            self.done = True
            raise Gone
        exchange.client.send(reply.raw)


def test_lost_task_runs_within_seconds_on_a_real_server(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url, E2E_RESPONSE="300", E2E_RETRIES="0")
        lost_reply = LostReply()
        proxy.on(POLL, lost_reply, times=10**9)
        asked = len(proxy.requests(POLL))
        # The poll that was under way when the rule came has ended.
        eventually(lambda: len(proxy.requests(POLL)) > asked + 1)
        workflow = harness.plain()
        worker.until("returned a task to its queue: the reply to its poll was lost", within=30)
        assert harness.ended(workflow, within=30) == "COMPLETED"
        assert lost_reply.done
        (task,) = harness.tasks(workflow)
        assert task["retryCount"] == 0


def test_task_lost_with_the_reply_to_a_report_is_found(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with FaultProxy(harness.stack.conductor_url) as proxy:
        # With one slot, polls are sent beside the reports.
        worker = harness.start(PLAIN, jobs=2, CONDUCTOR_SERVER_URL=proxy.url, E2E_RESPONSE="300", E2E_RETRIES="0")
        lost_reply, gates = LostReply(), [harness.gate(), harness.gate()]
        proxy.on(REPORT_AND_POLL, lost_reply, times=10**9)
        running = [harness.plain(gate=str(gate)) for gate in gates]
        for gate in gates:
            gate.reached()
        waiting = [harness.plain() for _ in range(6)]
        for gate in gates:
            gate.open()
        worker.until("returned a task to its queue: the reply to its poll was lost", within=30)
        assert [harness.ended(workflow, within=30) for workflow in (*running, *waiting)] == ["COMPLETED"] * 8
        assert lost_reply.done
        assert {harness.tasks(workflow)[-1]["retryCount"] for workflow in waiting} == {0}
        eventually(lambda: len(worker.said("attempt")) == 8)
        assert {line["delivery"] for line in worker.said("attempt")} == {"accepted"}
