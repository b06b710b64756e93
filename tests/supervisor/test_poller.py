"""Which task type is polled, how long a poll waits, and how often an idle worker polls."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, ConductorUnknown
from perago.in_memory.conductor import FakeConductor
from perago.in_memory.conductor_rows import WorkflowStep
from perago.model import TaskType, WorkerId
from perago.supervisor import poller
from perago.supervisor.context import BlockingCalls
from perago.supervisor.poller import Poller, PollTarget
from perago.supervisor.shutdown import Shutdown

A, B, C = TaskType("a"), TaskType("b"), TaskType("c")


class CountingConductor(FakeConductor):
    """Records all polls, and answers with an error while `down`."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[tuple[TaskType, WorkerId, float]] = []
        self.down = False

    def poll(self, task_type: TaskType, worker_id: WorkerId, *, wait_seconds: float) -> Polled | None:
        self.polls.append((task_type, worker_id, wait_seconds))
        if self.down:
            raise ConductorUnavailable("down")
        return super().poll(task_type, worker_id, wait_seconds=wait_seconds)


def make_poller(server: FakeConductor, types: list[TaskType], slots: int) -> Poller:
    pool = ThreadPoolExecutor(max_workers=16)
    targets = [PollTarget(one) for one in types]
    return Poller(BlockingCalls(server, pool), targets, slots, Shutdown(lambda: None), lambda _: None, lambda *_: None)


def test_each_poll_has_a_unique_worker_id() -> None:
    names = {poller.unique_worker_id("slot0001") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("slot0001-") for name in names)


def test_type_not_polled_for_longest_is_next() -> None:
    targets = [
        PollTarget(A, polled_at=10, was_empty=False),
        PollTarget(B, polled_at=9, was_empty=False),
        PollTarget(C, in_flight=1, polled_at=1),
    ]
    assert poller.choose_target(targets, 20) is targets[1]


def test_empty_queue_is_skipped_only_briefly() -> None:
    targets = [PollTarget(A, polled_at=10.0, was_empty=False), PollTarget(B, polled_at=9.9, was_empty=True)]
    assert poller.choose_target(targets, 10.05) is targets[0]
    assert poller.choose_target(targets, 10.2) is targets[1]


def test_paused_type_is_not_polled() -> None:
    assert poller.choose_target([PollTarget(A, is_paused=True)], 0) is None


def test_poll_waits_long_if_each_type_has_a_slot_and_not_at_all_beside_work() -> None:
    idle, busy = PollTarget(A, was_empty=True), PollTarget(B, was_empty=False)
    assert poller.poll_wait([idle, busy], idle, 2, 10.0) == poller.LONG_SECONDS
    assert poller.poll_wait([idle, PollTarget(C)], idle, 1, 10.0) == poller.SHORT_SECONDS
    assert poller.poll_wait([idle, busy], idle, 1, 10.0) == 0.0


def test_no_poll_waits_while_another_queue_has_more() -> None:
    idle, full = PollTarget(A, was_empty=True), PollTarget(B, was_empty=False, has_more=True)
    assert poller.poll_wait([idle, full], idle, 4, 10.0) == 0.0
    assert poller.poll_wait([idle, full], full, 4, 10.0) == poller.LONG_SECONDS
    full.is_paused = True
    assert poller.poll_wait([idle, full], idle, 4, 10.0) == poller.LONG_SECONDS


@pytest.mark.parametrize(
    "busy",
    [PollTarget(A, was_empty=False, is_paused=True), PollTarget(A, was_empty=False, has_more=True, in_flight=1)],
    ids=["paused", "polled by others"],
)
@pytest.mark.parametrize("slots", [1, 4])
def test_empty_queue_is_not_polled_in_a_tight_loop_beside_an_unavailable_one(busy: PollTarget, slots: int) -> None:
    server = CountingConductor()

    async def main() -> None:
        subject = make_poller(server, [A, B], slots)
        subject.targets = [replace(busy), PollTarget(B)]
        waiting = [asyncio.create_task(subject.next(f"s{number}", lambda: True)) for number in range(slots)]
        await asyncio.sleep(1.0)
        subject.shutdown.drain()
        await asyncio.gather(*waiting)

    asyncio.run(main())
    assert {task_type for task_type, *_ in server.polls} == {B}
    assert len(server.polls) <= 15


def test_idle_worker_polls_once_a_second_per_type() -> None:
    server = CountingConductor()

    async def main() -> None:
        subject = make_poller(server, [A, B], 8)
        slots = [asyncio.create_task(subject.next(f"s{number}", lambda: True)) for number in range(8)]
        await asyncio.sleep(2.2)
        subject.shutdown.drain()
        await asyncio.gather(*slots)

    asyncio.run(main())
    assert 4 <= len(server.polls) <= 8


def test_slot_empties_a_queue_without_waiting_for_an_empty_one() -> None:
    server = CountingConductor()
    for _ in range(40):
        server.start([WorkflowStep(A, "it")])

    async def main() -> float:
        subject = make_poller(server, [A, B], 1)
        began = time.monotonic()
        for _ in range(40):
            assert await subject.next("s1", lambda: True) is not None
        return time.monotonic() - began

    assert asyncio.run(main()) < 1.0
    assert sum(1 for task_type, *_ in server.polls if task_type == B) <= 5


def test_task_received_while_draining_is_handed_back() -> None:
    server = CountingConductor()

    async def main() -> None:
        subject = make_poller(server, [A], 1)
        waiting = asyncio.create_task(subject.next("s1", lambda: True))
        await asyncio.sleep(0.2)
        subject.shutdown.drain()
        server.start([WorkflowStep(A, "it")])
        assert await waiting is None

    asyncio.run(main())
    (task,) = server.tasks.values()
    assert (task.status, task.poll_count) == ("SCHEDULED", 1)


@pytest.mark.slow
def test_outage_slows_polls_down() -> None:
    server = CountingConductor()
    server.down = True

    async def main() -> None:
        subject = make_poller(server, [A, B, C], 8)
        slots = [asyncio.create_task(subject.next(f"s{number}", lambda: True)) for number in range(8)]
        await asyncio.sleep(1.5)
        server.down = False
        server.start([WorkflowStep(A, "it")])
        await asyncio.wait(slots, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        subject.shutdown.drain()
        await asyncio.gather(*slots)

    asyncio.run(main())
    assert len(server.polls) < 30


def test_poll_is_sent_with_a_report_while_the_queue_has_more() -> None:
    server = CountingConductor()
    server.start([WorkflowStep(A, "it")])

    async def main() -> None:
        subject = make_poller(server, [A, B], 2)
        assert subject.next_with_report("s1", A) is None, "nothing is known of the queue yet"
        subject.targets[1].polled_at = time.monotonic()
        assert await subject.next("s1", lambda: True) is not None
        assert subject.next_with_report("s1", B) is None, "it is the turn of A"
        assert subject.next_with_report("s1", A) is not None
        assert subject.next_with_report("s2", A) is not None
        assert subject.next_with_report("s3", A) is None, "two slots, two polls"

    asyncio.run(main())


def test_only_slot_polls_beside_its_report() -> None:
    server = CountingConductor()
    server.start([WorkflowStep(A, "it")])

    async def main() -> None:
        subject = make_poller(server, [A], 1)
        assert await subject.next("s1", lambda: True) is not None
        assert subject.targets[0].has_more
        assert subject.next_with_report("s1", A) is None

    asyncio.run(main())


def test_poll_is_not_sent_with_a_report_after_a_long_wait() -> None:
    server = CountingConductor()

    async def main() -> None:
        subject = make_poller(server, [A], 2)
        waiting = asyncio.create_task(subject.next("s1", lambda: True))
        await asyncio.sleep(2 * poller.AT_ONCE_SECONDS)
        server.start([WorkflowStep(A, "it")])
        assert await waiting is not None
        assert subject.next_with_report("s1", A) is None

    asyncio.run(main())


def received_with_report(answer: Polled | Exception | None) -> tuple[object, list[WorkerId]]:
    """What a slot gets of a poll that was sent with a report, and which polls count as lost."""
    server, lost = CountingConductor(), list[WorkerId]()

    async def main() -> object:
        subject = make_poller(server, [A], 2)
        subject.lost = lambda _type, worker_id: lost.append(worker_id)
        subject.targets[0].has_more = True
        sent = subject.next_with_report("s1", A)
        assert sent is not None
        if isinstance(answer, Exception):
            sent.reply.set_exception(answer)
        else:
            sent.reply.set_result((answer, 7.0))
        found = await subject.next("s1", lambda: False, sent)
        assert subject.targets[0].in_flight == 0
        assert subject.targets[0].has_more == isinstance(answer, Polled)
        assert lost in ([], [sent.worker_id])
        return found

    found = asyncio.run(main())
    assert server.polls == []
    return found, lost


def one(server: FakeConductor) -> Polled:
    server.start([WorkflowStep(A, "it")])
    found = server.poll(A, WorkerId("n"), wait_seconds=0)
    assert found is not None
    return found


def test_slot_gets_the_task_that_came_with_the_report() -> None:
    task = one(FakeConductor())
    assert received_with_report(task) == ((task, 7.0), [])
    assert received_with_report(None) == (None, [])


def test_poll_cut_off_with_its_report_counts_as_lost() -> None:
    found, lost = received_with_report(ConductorUnknown("cut"))
    assert (found, len(lost)) == (None, 1)
    assert received_with_report(ConductorUnavailable("503")) == (None, [])


def test_task_received_with_the_last_report_is_handed_back() -> None:
    server = FakeConductor()
    task = one(server)

    async def main() -> None:
        subject = make_poller(server, [A], 2)
        subject.targets[0].has_more = True
        sent = subject.next_with_report("s1", A)
        assert sent is not None
        sent.reply.set_result((task, 7.0))
        subject.shutdown.drain()
        assert await subject.next("s1", lambda: True, sent) is None
        assert subject.next_with_report("s1", A) is None

    asyncio.run(main())
    assert server.tasks[task.attempt.task_id].status == "SCHEDULED"


# built-in tasks, whose queues are empty most of the time


def with_built_in(server: FakeConductor, slots: int) -> Poller:
    made = make_poller(server, [A], slots)
    made.targets = [*made.targets, PollTarget(B, is_built_in=True), PollTarget(C, is_built_in=True)]
    return made


def test_one_slot_at_a_time_polls_built_in_types() -> None:
    targets = [PollTarget(A, in_flight=1), PollTarget(B, in_flight=1, is_built_in=True), PollTarget(C, is_built_in=True)]
    assert poller.choose_target(targets, 100) is None
    targets[1].in_flight = 0
    assert poller.choose_target(targets, 100) is targets[1]


def test_an_empty_built_in_queue_is_polled_once_a_second() -> None:
    built_in = PollTarget(B, polled_at=10, is_built_in=True)
    assert poller.choose_target([built_in], 10.9) is None
    assert poller.choose_target([built_in], 11) is built_in
    built_in.has_more = True
    assert poller.choose_target([built_in], 10.1) is built_in


def test_a_built_in_poll_waits_only_if_slots_are_left_for_other_tasks() -> None:
    ordinary, built_in = PollTarget(A), PollTarget(B, is_built_in=True)
    targets = [ordinary, built_in, PollTarget(C, is_built_in=True)]
    assert [poller.poll_wait(targets, built_in, idle, 10.0) for idle in (1, 2, 3)] == [0.0, 0.0, poller.LONG_SECONDS]
    assert poller.poll_wait(targets, ordinary, 1, 10.0) == poller.LONG_SECONDS, "ordinary polls are as long as without them"
    ordinary.has_more = True
    assert poller.poll_wait(targets, built_in, 3, 10.0) == 0.0


@pytest.mark.parametrize("slots", [1, 4])
def test_idle_built_in_queues_cost_little(slots: int) -> None:
    """Beside the poll per second of the ordinary type, at most one poll per second of each built-in one."""
    server = CountingConductor()

    async def serve() -> None:
        made = with_built_in(server, slots)
        slot_loops = [asyncio.create_task(made.next(f"slot{number}", lambda: True)) for number in range(slots)]
        await asyncio.sleep(3.2)
        made.shutdown.drain()
        await asyncio.gather(*slot_loops)

    asyncio.run(serve())
    counts = {one: sum(polled == one for polled, _, _ in server.polls) for one in (A, B, C)}
    assert 3 <= counts[A] <= 4
    assert 1 <= counts[B] <= 4
    assert 1 <= counts[C] <= 4


def test_a_task_of_a_built_in_type_is_taken_beside_work() -> None:
    server = CountingConductor()
    for task_type in (A, A, A, C):
        server.start([WorkflowStep(task_type, "it", {})])

    async def serve() -> list[str]:
        made = with_built_in(server, 1)
        found: list[str] = []
        while len(found) < 4:
            received = await made.next("slot", lambda: True)
            assert received is not None
            found.append(received[0].attempt.task_type)
        return found

    assert sorted(asyncio.run(serve())) == ["a", "a", "a", "c"]
