"""One attempt in the supervisor's hands, on the fake: what is sent to Conductor, and what is not."""

import asyncio
import io
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from perago import ipc
from perago.conductor import reporting
from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, TaskStatus
from perago.events import Event
from perago.in_memory.conductor import FakeConductor, Step
from perago.model import Attempt, CommitId, ExecutionId, Outcome, TaskId, TaskType, WorkerId, WorkflowId
from perago.supervisor import logs
from perago.supervisor.attempt_loop import Broker
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.metrics import Metrics
from perago.supervisor.poller import Along, Polling, Queue
from perago.supervisor.slot import Slot
from perago.supervisor.supervised_attempt import YOUNG_SECONDS, Running

TYPE = TaskType("type")
FACTS = ipc.TaskFacts("module", TYPE, False, {"name": TYPE}, 60.0, 15.0, 30.0)
DONE = Outcome(TaskStatus.COMPLETED, {"result": {"n": 1}})


class Listener:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_more: None


class Noting(FakeConductor):
    def __init__(self) -> None:
        super().__init__()
        self.extended = self.polls = 0
        self.emptied = threading.Event()
        """Once a poll has found nothing."""
        self.refuse_hand_back = False

    def extend_lease(self, attempt: Attempt) -> None:
        self.extended += 1
        super().extend_lease(attempt)

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


def on_desk(server: FakeConductor, work: Callable[[Desk], Coroutine[Any, Any, Any]]) -> Any:
    with ThreadPoolExecutor(max_workers=8) as pool:
        return asyncio.run(work(Desk(server, pool)))


def polled(server: FakeConductor, nonce: str = "a") -> Polled:
    found = server.poll(TYPE, WorkerId(nonce), wait_seconds=0)
    assert found is not None
    return found


def rerun(server: FakeConductor, workflow: WorkflowId, attempt: Attempt) -> Polled:
    """Terminated, run again and handed to somebody else: the same ids."""
    server.terminate(workflow)
    server.rerun(workflow, attempt.task_id)
    return polled(server, "b")


def running(desk: Desk, of: Polled, *, polled_at: float | None = None, facts: ipc.TaskFacts = FACTS) -> Running:
    now = asyncio.get_running_loop().time()
    at = now if polled_at is None else now + polled_at
    return Running(of, facts, ExecutionId("e"), desk, cast("Any", Listener()), polled_at=at)


@pytest.mark.parametrize(
    ("facts", "since_poll"), [(replace(FACTS, needs_lake=True), 0.0), (FACTS, -YOUNG_SECONDS)], ids=["publishes", "not young"]
)
def test_a_result_is_not_reported_for_the_execution_after_a_rerun(facts: ipc.TaskFacts, since_poll: float) -> None:
    server = FakeConductor()
    workflow = server.start([Step(TYPE, "it")])

    async def work(desk: Desk) -> reporting.Delivery:
        first = polled(server)
        ours = running(desk, first, polled_at=since_poll, facts=facts)
        rerun(server, workflow, first.attempt)
        return await ours.deliver(DONE, until=lambda: float("inf"))

    assert isinstance(on_desk(server, work), reporting.Superseded)
    (task,) = server.tasks.values()
    assert (task.status, task.worker_id) == ("IN_PROGRESS", "b")


def test_a_fence_extends_no_lease_that_is_somebody_elses() -> None:
    server = Noting()
    workflow = server.start([Step(TYPE, "it")])

    async def work(desk: Desk) -> None:
        first = polled(server)
        ours = running(desk, first, polled_at=-3000.0)
        assert (await ours.fence()).worker_id == "a"
        assert server.extended == 1
        rerun(server, workflow, first.attempt)
        late = running(desk, first, polled_at=-3000.0)
        assert (await late.fence()).worker_id == "b"
        assert server.extended == 1

    on_desk(server, work)


class Puppet:
    """A slot that takes one attempt."""

    def __init__(self, *, can_run: bool) -> None:
        self.name, self.can_run, self.turns, self.ran = "s0001", can_run, 1, 0

    async def ready(self) -> bool:
        self.turns -= 1
        return self.turns >= 0

    async def run(self, running: Running) -> Outcome:
        del running
        self.ran += 1
        return DONE

    async def close(self) -> None:
        pass


def restore_nothing(_running: Running, _accepted: CommitId) -> list[Event]:
    return []


def serve(server: FakeConductor, folder: Path, slot: Puppet) -> Broker:
    async def work(desk: Desk) -> Broker:
        log, file = logs.Journal(folder, 10**6, 60, logs.Console(io.StringIO())).logger("w0001")
        broker = Broker(desk, {TYPE: FACTS}, Metrics(), log, lambda _running: None, restore_nothing)
        polling = Polling(desk, [Queue(TYPE)], 1, failed=broker.conductor_failed, answered=broker.conductor_answered)

        class Once(Polling):
            async def next(
                self, name: str, can_run: Callable[[], bool], along: Along | None = None
            ) -> tuple[Polled, float] | None:
                del can_run
                return await polling.next(name, lambda: along is None, along)

        once = Once(desk, polling.queues, 1, failed=polling.failed, answered=polling.answered)
        await broker.serve(cast("Slot", slot), once)
        await broker.settle()
        file.close()
        return broker

    return on_desk(server, work)


def test_an_input_in_external_storage_ends_the_task_at_once_and_says_what_to_do(tmp_path: Path) -> None:
    server = FakeConductor()
    server.start([Step(TYPE, "it", {"params": {}}, input_is_elsewhere=True)])
    slot = Puppet(can_run=True)
    serve(server, tmp_path, slot)
    (task,) = server.tasks.values()
    assert task.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "external payload storage" in (task.reason or "")
    assert "taskInputPayloadSizeThreshold" in (task.reason or "")
    assert slot.ran == 0


def test_a_task_for_an_executor_that_died_meanwhile_is_handed_back(tmp_path: Path) -> None:
    server = Noting()
    server.start([Step(TYPE, "it")])
    slot = Puppet(can_run=False)
    serve(server, tmp_path, slot)
    (task,) = server.tasks.values()
    assert (task.status, slot.ran) == ("SCHEDULED", 0)


def test_a_task_that_cannot_be_handed_back_waits_for_the_next_executor(tmp_path: Path) -> None:
    server = Noting()
    server.refuse_hand_back = True
    server.start([Step(TYPE, "it")])
    slot = Puppet(can_run=False)
    serve(server, tmp_path, slot)
    (task,) = server.tasks.values()
    assert (task.status, slot.ran) == ("COMPLETED", 1)


def test_a_full_queue_is_emptied_by_one_poll_and_the_reports(tmp_path: Path) -> None:
    server = Noting()
    for _ in range(5):
        server.start([Step(TYPE, "it")])

    async def work(desk: Desk) -> None:
        log, file = logs.Journal(tmp_path, 10**6, 60, logs.Console(io.StringIO())).logger("w0001")
        broker, slot = (
            Broker(desk, {TYPE: FACTS}, Metrics(), log, lambda _running: None, restore_nothing),
            Puppet(can_run=True),
        )
        polling = Polling(desk, [Queue(TYPE)], 1, failed=broker.conductor_failed, answered=broker.conductor_answered)
        serving = asyncio.create_task(broker.serve(cast("Slot", slot), polling))
        await asyncio.to_thread(server.emptied.wait, 30)
        polling.stop()
        await serving
        await broker.settle()
        file.close()
        assert [line["delivery"] for line in broker.recent] == ["accepted"] * 5

    on_desk(server, work)
    assert server.polls <= 2, "the first, and one after the last report had found nothing"


@pytest.mark.parametrize("text", ["half of a pair \ud800"])
def test_an_input_that_is_no_text_fails_its_attempt_and_not_the_worker(text: str) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        ipc.for_executor(ipc.Run(Polled(_attempt(), {"params": {"x": text}}, 60.0), ExecutionId("e"), 1.0))


def _attempt() -> Attempt:
    return Attempt(WorkflowId("w"), TaskId("t"), 0, "it", 1, 0, TYPE, WorkerId("n"), 1, 1)
