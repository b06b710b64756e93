"""On a real server: a heartbeat that overlaps a completion erases it; requests of one attempt in sequence lose none."""

import threading
from collections.abc import Callable

from tests.support import conductor_sites

from perago.conductor import reporting
from perago.errors import TaskStatus
from perago.model import Attempt, Outcome

ROUNDS = 40
ENOUGH = 2
DONE = Outcome(TaskStatus.COMPLETED, {"result": {"rows": 1}})


def lost(real: conductor_sites.RealConductorSite, act: Callable[[Attempt], None], *, rounds: int, enough: int) -> int:
    """The number of completions sent by `act` that are lost; stops at `enough`."""
    task_type, unpolled = real.task_type(), real.task_type()
    found = 0
    for _ in range(rounds):
        # A second step, so that the erased completion does not also end the workflow.
        workflow_id = real.start(task_type, unpolled)
        attempt = conductor_sites.take(real.conductor, task_type).attempt
        act(attempt)
        found += real.conductor.task(attempt.task_id).status == "IN_PROGRESS"
        real.terminate(workflow_id)
        if found >= enough:
            break
    return found


def test_overlapping_requests_lose_completions(real: conductor_sites.RealConductorSite) -> None:
    def overlap(attempt: Attempt) -> None:
        beats = [threading.Thread(target=real.conductor.extend_lease, args=(attempt,)) for _ in range(4)]
        report = threading.Thread(target=real.client.report, args=(attempt, DONE), kwargs={"timeout": 20})
        for thread in (*beats[:2], report, *beats[2:]):
            thread.start()
        for thread in (*beats, report):
            thread.join()

    assert lost(real, overlap, rounds=5 * ROUNDS, enough=ENOUGH) >= 1


def test_requests_in_single_file_lose_none(real: conductor_sites.RealConductorSite) -> None:
    def in_single_file(attempt: Attempt) -> None:
        turn = threading.Lock()
        answers: list[reporting.Delivery] = []

        def beat() -> None:
            with turn:
                real.conductor.extend_lease(attempt)

        def finish() -> None:
            with turn:
                answers.append(reporting.deliver(real.conductor, attempt, DONE, deadline=20, request_timeout=10, clock=lambda: 0))

        threads = [threading.Thread(target=beat) for _ in range(4)]
        threads.insert(2, threading.Thread(target=finish))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [reporting.Accepted(sent=1)]

    assert lost(real, in_single_file, rounds=ROUNDS, enough=1) == 0
