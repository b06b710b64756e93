"""A poll whose reply is lost: the task that Conductor handed out to it is found and handed back, long before its timeout."""

import asyncio
import io
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.fault_proxy import Exchange, FaultProxy, Gone
from tests.support.worker_harness import PLAIN, WorkerHarness, eventually

from perago.errors import ConductorUnavailable
from perago.in_memory.conductor import FakeConductor, Step
from perago.model import Attempt, TaskType, WorkerId
from perago.supervisor import logs, lost_polls
from perago.supervisor.blocking_calls import Desk

TYPE = TaskType("type")
POLL = "GET /api/tasks/poll/"
REPORT_AND_POLL = "POST /api/tasks/update-v2"


class Indexed(FakeConductor):
    """Its index is behind, or away, for the first few looks."""

    def __init__(self, *, away: int = 0, behind: int = 0) -> None:
        super().__init__()
        self.away, self.behind, self.looks = away, behind, 0

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        self.looks += 1
        if self.looks <= self.away:
            raise ConductorUnavailable("down")
        return [] if self.looks <= self.away + self.behind else super().handed_out(task_type, worker_ids)


class Stale(FakeConductor):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Attempt] = []

    def handed_out(self, task_type: TaskType, worker_ids: Collection[WorkerId]) -> Sequence[Attempt]:
        del task_type, worker_ids
        return self.shown


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_polls, "DUE_AFTER", (0.01, 0.02, 0.03))
    monkeypatch.setattr(lost_polls, "pause_after", lambda failures: 0.01)  # pyright: ignore[reportUnknownLambdaType]


def search(server: FakeConductor, folder: Path, *worker_ids: str) -> list[str]:
    """What was logged about it."""
    shown = io.StringIO()
    log, file = logs.Journal(folder, 10**6, 60, logs.Console(shown)).logger("w0001")

    async def work() -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            polls = lost_polls.LostPolls(Desk(server, pool), log, asyncio.Event())
            for worker_id in worker_ids or ("lost",):
                polls.add(TYPE, WorkerId(worker_id))
            await asyncio.wait_for(polls.settle(), 10)

    asyncio.run(work())
    file.close()
    return [line for line in shown.getvalue().splitlines() if "handed back" in line]


@pytest.mark.parametrize(("away", "behind"), [(0, 0), (5, 0), (0, 2), (2, 1)])
def test_it_goes_back_to_its_queue_and_no_retry_is_spent(away: int, behind: int, tmp_path: Path) -> None:
    server = Indexed(away=away, behind=behind)
    server.start([Step(TYPE, "it")])
    server.poll(TYPE, WorkerId("lost"), wait_seconds=0)
    assert len(search(server, tmp_path)) == 1
    (task,) = server.tasks.values()
    assert (task.status, task.retry_count) == ("SCHEDULED", 0)


def test_an_outage_that_cuts_many_polls_is_searched_once_at_a_time(tmp_path: Path) -> None:
    server = Indexed(away=20)
    server.start([Step(TYPE, "it")])
    server.poll(TYPE, WorkerId("lost 299"), wait_seconds=0)
    assert len(search(server, tmp_path, *(f"lost {number}" for number in range(300)))) == 1
    # Twenty without an answer, then three for all of them.
    assert server.looks <= 26


def test_what_was_lost_long_ago_is_left_to_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_polls, "LONGEST_OUTAGE", 0.1)
    server = Indexed(away=10**9)
    assert search(server, tmp_path) == []
    assert server.looks > 1


def test_what_others_were_given_stays_theirs_and_the_search_ends(tmp_path: Path) -> None:
    server = Indexed()
    server.start([Step(TYPE, "it")])
    server.poll(TYPE, WorkerId("somebody"), wait_seconds=0)
    assert search(server, tmp_path) == []
    assert [task.status for task in server.tasks.values()] == ["IN_PROGRESS"]
    assert server.looks == 3


def test_a_stale_index_hands_nothing_back(tmp_path: Path) -> None:
    """The index still shows the task as it was before a rerun gave it to somebody else."""
    server = Stale()
    workflow = server.start([Step(TYPE, "it")])
    lost = server.poll(TYPE, WorkerId("lost"), wait_seconds=0)
    assert lost is not None
    server.terminate(workflow)
    server.rerun(workflow, lost.attempt.task_id)
    server.poll(TYPE, WorkerId("somebody"), wait_seconds=0)
    server.shown = [lost.attempt]
    assert search(server, tmp_path) == []
    (task,) = server.tasks.values()
    assert (task.status, task.worker_id) == ("IN_PROGRESS", "somebody")


class Swallowed:
    """The reply of the first poll that is given a task is lost, and no other."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, exchange: Exchange) -> None:
        reply = exchange.forward()
        if b"taskId" in reply.raw and not self.done:
            self.done = True
            raise Gone
        exchange.client.send(reply.raw)


def test_on_a_real_server_it_runs_within_seconds_and_not_after_its_timeout(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url, E2E_RESPONSE="300", E2E_RETRIES="0")
        swallowed = Swallowed()
        proxy.on(POLL, swallowed, times=10**9)
        asked = len(proxy.requests(POLL))
        # The poll that was under way when the rule came has ended.
        eventually(lambda: len(proxy.requests(POLL)) > asked + 1)
        workflow = harness.plain()
        worker.until("a task whose poll was cut off is handed back", within=30)
        assert harness.ended(workflow, within=30) == "COMPLETED"
        assert swallowed.done
        (task,) = harness.tasks(workflow)
        assert task["retryCount"] == 0


def test_a_task_that_was_lost_with_the_reply_to_a_report_is_found_too(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url, E2E_RESPONSE="300", E2E_RETRIES="0")
        swallowed, gate = Swallowed(), harness.gate()
        proxy.on(REPORT_AND_POLL, swallowed, times=10**9)
        first = harness.plain(gate=str(gate))
        gate.reached()
        waiting = [harness.plain() for _ in range(3)]
        gate.open()
        worker.until("a task whose poll was cut off is handed back", within=30)
        assert [harness.ended(workflow, within=30) for workflow in (first, *waiting)] == ["COMPLETED"] * 4
        assert swallowed.done
        assert {harness.tasks(workflow)[-1]["retryCount"] for workflow in waiting} == {0}
        eventually(lambda: len(worker.said("attempt")) == 4)
        assert {line["delivery"] for line in worker.said("attempt")} == {"accepted"}
