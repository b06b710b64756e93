"""Which queue is asked, for how long, and how often when there is nothing to do."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, ConductorUnknown
from perago.in_memory.conductor import FakeConductor, Step
from perago.model import TaskType, WorkerId
from perago.supervisor import poller
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.poller import Polling, Queue

A, B, C = TaskType("a"), TaskType("b"), TaskType("c")


class Counting(FakeConductor):
    """Notes who asked for what, and answers with an error while `down`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[TaskType, WorkerId, float]] = []
        self.down = False

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        self.asked.append((task_type, worker_id, wait_seconds))
        if self.down:
            raise ConductorUnavailable("down")
        return super().poll(task_type, worker_id, wait_seconds=wait_seconds)


def made(server: FakeConductor, types: list[TaskType], slots: int) -> Polling:
    pool = ThreadPoolExecutor(max_workers=16)
    return Polling(Desk(server, pool), [Queue(one) for one in types], slots, failed=lambda _: None, answered=lambda: None)


def test_every_poll_has_a_nonce_of_its_own() -> None:
    names = {poller.nonce("slot0001") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("slot0001-") for name in names)


def test_the_queue_that_waited_longest_comes_next() -> None:
    queues = [Queue(A, asked_at=10, was_empty=False), Queue(B, asked_at=9, was_empty=False), Queue(C, asking=1, asked_at=1)]
    assert poller.choose(queues, 20) is queues[1]


def test_an_empty_queue_is_left_alone_for_a_moment_only() -> None:
    queues = [Queue(A, asked_at=10.0, was_empty=False), Queue(B, asked_at=9.9, was_empty=True)]
    assert poller.choose(queues, 10.05) is queues[0]
    assert poller.choose(queues, 10.2) is queues[1]


def test_a_held_queue_is_not_asked() -> None:
    assert poller.choose([Queue(A, is_held=True)], 0) is None


def test_polls_wait_long_where_every_queue_can_have_a_slot_and_not_at_all_beside_work() -> None:
    idle, busy = Queue(A, was_empty=True), Queue(B, was_empty=False)
    assert poller.patience([idle, busy], idle, 2, 10.0) == poller.LONG_SECONDS
    assert poller.patience([idle, Queue(C)], idle, 1, 10.0) == poller.SHORT_SECONDS
    assert poller.patience([idle, busy], idle, 1, 10.0) == 0.0


def test_no_slot_waits_for_a_queue_while_another_gives_at_once() -> None:
    idle, full = Queue(A, was_empty=True), Queue(B, was_empty=False, has_more=True)
    assert poller.patience([idle, full], idle, 4, 10.0) == 0.0
    assert poller.patience([idle, full], full, 4, 10.0) == poller.LONG_SECONDS
    full.is_held = True
    assert poller.patience([idle, full], idle, 4, 10.0) == poller.LONG_SECONDS


@pytest.mark.parametrize(
    "busy",
    [Queue(A, was_empty=False, is_held=True), Queue(A, was_empty=False, has_more=True, asking=1)],
    ids=["held", "others ask for it"],
)
@pytest.mark.parametrize("slots", [1, 4])
def test_an_empty_queue_is_not_asked_without_end_because_another_is_not_to_be_had(busy: Queue, slots: int) -> None:
    server = Counting()

    async def main() -> None:
        polling = made(server, [A, B], slots)
        polling.queues = [replace(busy), Queue(B)]
        asking = [asyncio.create_task(polling.next(f"s{number}", lambda: True)) for number in range(slots)]
        await asyncio.sleep(1.0)
        polling.stop()
        await asyncio.gather(*asking)

    asyncio.run(main())
    assert {task_type for task_type, *_ in server.asked} == {B}
    assert len(server.asked) <= 15


def test_an_idle_worker_asks_once_a_second_per_type_however_many_slots_it_has() -> None:
    server = Counting()

    async def main() -> None:
        polling = made(server, [A, B], 8)
        slots = [asyncio.create_task(polling.next(f"s{number}", lambda: True)) for number in range(8)]
        await asyncio.sleep(2.2)
        polling.stop()
        await asyncio.gather(*slots)

    asyncio.run(main())
    assert 4 <= len(server.asked) <= 8


def test_one_slot_drains_a_queue_without_waiting_for_an_empty_one() -> None:
    server = Counting()
    for _ in range(40):
        server.start([Step(A, "it")])

    async def main() -> float:
        polling = made(server, [A, B], 1)
        began = time.monotonic()
        for _ in range(40):
            assert await polling.next("s1", lambda: True) is not None
        return time.monotonic() - began

    assert asyncio.run(main()) < 1.0
    assert sum(1 for task_type, *_ in server.asked if task_type == B) <= 5


def test_a_task_that_arrives_while_the_worker_stops_is_handed_back() -> None:
    server = Counting()

    async def main() -> None:
        polling = made(server, [A], 1)
        asking = asyncio.create_task(polling.next("s1", lambda: True))
        await asyncio.sleep(0.2)
        polling.stop()
        server.start([Step(A, "it")])
        assert await asking is None

    asyncio.run(main())
    (task,) = server.tasks.values()
    assert (task.status, task.poll_count) == ("SCHEDULED", 1)


def test_an_outage_slows_the_polls_down() -> None:
    server = Counting()
    server.down = True

    async def main() -> None:
        polling = made(server, [A, B, C], 8)
        slots = [asyncio.create_task(polling.next(f"s{number}", lambda: True)) for number in range(8)]
        await asyncio.sleep(1.5)
        server.down = False
        server.start([Step(A, "it")])
        await asyncio.wait(slots, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        polling.stop()
        await asyncio.gather(*slots)

    asyncio.run(main())
    assert len(server.asked) < 30


def test_a_poll_goes_along_with_a_report_of_its_type_while_the_queue_gives_at_once() -> None:
    server = Counting()
    server.start([Step(A, "it")])

    async def main() -> None:
        polling = made(server, [A, B], 1)
        assert polling.along("s1", A) is None, "nothing is known of the queue yet"
        polling.queues[1].asked_at = time.monotonic()
        assert await polling.next("s1", lambda: True) is not None
        assert polling.along("s1", B) is None, "it is the turn of A"
        assert polling.along("s1", A) is not None
        assert polling.along("s2", A) is None, "one slot, one poll"

    asyncio.run(main())


def test_a_poll_goes_alone_where_the_task_had_to_be_waited_for() -> None:
    server = Counting()

    async def main() -> None:
        polling = made(server, [A], 1)
        asking = asyncio.create_task(polling.next("s1", lambda: True))
        await asyncio.sleep(2 * poller.AT_ONCE_SECONDS)
        server.start([Step(A, "it")])
        assert await asking is not None
        assert polling.along("s1", A) is None

    asyncio.run(main())


def gone_along(answer: Polled | Exception | None) -> tuple[object, list[WorkerId]]:
    """What a slot gets of a poll that went along with a report, and which polls count as lost."""
    server, lost = Counting(), list[WorkerId]()

    async def main() -> object:
        polling = made(server, [A], 1)
        polling.lost = lambda _type, worker_id: lost.append(worker_id)
        polling.queues[0].has_more = True
        along = polling.along("s1", A)
        assert along is not None
        if isinstance(answer, Exception):
            along.answer.set_exception(answer)
        else:
            along.answer.set_result((answer, 7.0))
        found = await polling.next("s1", lambda: False, along)
        assert polling.queues[0].asking == 0
        assert polling.queues[0].has_more == isinstance(answer, Polled)
        assert lost in ([], [along.worker_id])
        return found

    found = asyncio.run(main())
    assert server.asked == []
    return found, lost


def one(server: FakeConductor) -> Polled:
    server.start([Step(A, "it")])
    found = server.poll(A, WorkerId("n"), wait_seconds=0)
    assert found is not None
    return found


def test_a_slot_gets_what_came_with_the_report() -> None:
    task = one(FakeConductor())
    assert gone_along(task) == ((task, 7.0), [])
    assert gone_along(None) == (None, [])


def test_a_poll_that_was_cut_off_with_its_report_is_looked_for() -> None:
    found, lost = gone_along(ConductorUnknown("cut"))
    assert (found, len(lost)) == (None, 1)
    assert gone_along(ConductorUnavailable("503")) == (None, [])


def test_what_came_with_the_last_report_of_a_worker_that_stops_is_handed_back() -> None:
    server = FakeConductor()
    task = one(server)

    async def main() -> None:
        polling = made(server, [A], 1)
        polling.queues[0].has_more = True
        along = polling.along("s1", A)
        assert along is not None
        along.answer.set_result((task, 7.0))
        polling.stop()
        assert await polling.next("s1", lambda: True, along) is None
        assert polling.along("s1", A) is None

    asyncio.run(main())
    assert server.tasks[task.attempt.task_id].status == "SCHEDULED"


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [poller.pause_after(failures) for failures in range(1, 30)]
    assert pauses[0] <= poller.FIRST_PAUSE
    assert max(pauses) <= poller.LONGEST_PAUSE
