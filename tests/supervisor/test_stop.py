"""Signals: the first drains, the second stops hard, and nothing is left; idle, busy, while starting, while servers are away."""

import signal
import time
from pathlib import Path

import pytest
from tests.support.fault_proxy import FaultProxy, cut, silence
from tests.support.worker import GROW, PLAIN, Rig, children, eventually

ALWAYS = 10**9


def left_by(rig: Rig) -> list[object]:
    """Processes, workspaces and status files that should not be there any more."""
    processes = [pid for worker in rig.workers for pid in worker.survivors()]
    status = [path.name for path in (rig.logs / ".workers").iterdir()] if (rig.logs / ".workers").is_dir() else []
    return [*processes, *status, *rig.left_workspaces()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_idle_worker_stops_within_two_seconds(rig: Rig, number: signal.Signals) -> None:
    worker = rig.start(PLAIN, jobs=2)
    began = time.monotonic()
    worker.signal(number)
    assert worker.process.wait(10) == 0
    assert time.monotonic() - began < 2.0
    assert left_by(rig) == []


def test_the_first_signal_finishes_what_runs_and_takes_nothing_new(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    gate = rig.gate()
    running, waiting = rig.plain(gate=str(gate)), None
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker stops; attempts that run are finished first")
    waiting = rig.plain()
    gate.open()
    assert worker.process.wait(10) == 0
    assert rig.ended(running) == "COMPLETED"
    assert rig.tasks(waiting)[0]["status"] == "SCHEDULED"
    assert left_by(rig) == []


def test_the_second_signal_calls_off_what_runs_and_says_so(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RETRIES="0")
    gate = rig.gate()
    workflow = rig.plain(gate=str(gate))
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker stops; attempts that run are finished first")
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 3
    assert time.monotonic() - began < 5
    (task,) = rig.tasks(workflow)
    assert task["status"] == "FAILED"
    assert "the worker was stopped" in task["reasonForIncompletion"]
    assert left_by(rig) == []


def test_the_bound_stops_a_body_that_listens_to_nothing(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RETRIES="0", PERAGO_SHUTDOWN_FORCE_KILL_AFTER="1s")
    begun = rig.folder / "begun"
    workflow = rig.plain(do="stubborn", seconds=60, text=str(begun))
    eventually(begun.exists)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(15) == 3
    assert 1.0 <= time.monotonic() - began < 12
    (task,) = rig.tasks(workflow)
    assert "SIGKILL" in task["reasonForIncompletion"]
    assert "the worker was stopped" in task["reasonForIncompletion"]
    assert left_by(rig) == []


def test_a_workspace_attempt_that_is_stopped_hard_leaves_nothing_on_lakefs(rig: Rig) -> None:
    worker = rig.start(GROW, E2E_RETRIES="0")
    base, gate = rig.seed(), rig.gate()
    workflow = rig.grow(base, gate=str(gate))
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker stops; attempts that run are finished first")
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 3
    assert rig.tasks(workflow)[0]["status"] == "FAILED"
    assert rig.head().id == base
    assert rig.staging_branches() == []
    assert left_by(rig) == []


@pytest.mark.parametrize("when", ["at once", "while importing"])
def test_a_worker_can_be_stopped_while_it_starts(rig: Rig, when: str) -> None:
    worker = rig.launch(PLAIN, jobs=4)
    # Before its first child Python itself is starting, and a signal simply ends it.
    eventually(lambda: children(worker.pid), within=20)
    if when == "while importing":
        eventually(worker.executors, within=20)
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 0
    eventually(lambda: left_by(rig) == [], within=3)


@pytest.mark.parametrize("fault", [cut(), silence()], ids=["cut", "silent"])
def test_a_worker_stops_while_conductor_is_away(rig: Rig, fault: object) -> None:
    with FaultProxy(rig.stack.conductor_url) as proxy:
        worker = rig.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url)
        proxy.on(".*", fault, times=ALWAYS)  # pyright: ignore[reportArgumentType]
        asked = len(proxy.seen)
        eventually(lambda: len(proxy.seen) > asked)
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(10) == 0
        assert time.monotonic() - began < 4
    assert left_by(rig) == []


def test_a_result_that_cannot_be_delivered_does_not_keep_a_second_signal_waiting(rig: Rig) -> None:
    with FaultProxy(rig.stack.conductor_url) as proxy:
        worker = rig.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url)
        gate = rig.gate()
        rig.plain(gate=str(gate))
        gate.reached()
        proxy.on(".*", silence(), times=ALWAYS)
        gate.open()
        worker.signal(signal.SIGTERM)
        worker.until("worker stops; attempts that run are finished first")
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(20) in {0, 3}
        assert time.monotonic() - began < 12
    assert left_by(rig) == []


def test_a_second_signal_does_not_wait_for_a_lakefs_that_hangs(rig: Rig) -> None:
    with FaultProxy(rig.stack.lakefs_url) as proxy:
        worker = rig.start(GROW, LAKECTL_SERVER_ENDPOINT_URL=proxy.url, E2E_RETRIES="0")
        base, gate = rig.seed(), rig.gate()
        workflow = rig.grow(base, gate=str(gate))
        gate.reached()
        proxy.on(".*", silence(), times=ALWAYS)
        asked = len(proxy.seen)
        gate.open()
        eventually(lambda: len(proxy.seen) > asked)
        worker.signal(signal.SIGTERM)
        worker.until("worker stops; attempts that run are finished first")
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(20) == 3
        assert time.monotonic() - began < 12
        (task,) = rig.tasks(workflow)
        assert "the worker was stopped" in task["reasonForIncompletion"]
        assert worker.survivors() == []
    assert rig.head().id == base


def test_children_die_with_a_killed_supervisor_and_the_next_one_sweeps(rig: Rig) -> None:
    worker = rig.start(GROW, jobs=2)
    base, gate = rig.seed(), rig.gate()
    workflow = rig.grow(base, gate=str(gate))
    gate.reached()
    assert rig.left_workspaces() != []
    worker.kill()
    eventually(lambda: not worker.survivors(), within=5)
    following = rig.start(GROW)
    following.until("swept workspaces of dead executors")
    assert rig.left_workspaces() == []
    assert rig.head().id == base
    rig.real.terminate(workflow)
    assert following.stop() == 0


def test_the_living_are_not_swept(rig: Rig) -> None:
    rig.start(GROW)
    base, gate = rig.seed(), rig.gate()
    workflow = rig.grow(base, gate=str(gate), line="kept")
    gate.reached()
    other = rig.start(PLAIN)
    other.stop()
    gate.open()
    assert rig.ended(workflow) == "COMPLETED"
    assert rig.log_at(rig.head().id) == "kept\n"


def test_ten_starts_and_stops_leave_nothing(rig: Rig) -> None:
    rig.start(PLAIN).stop()
    for _ in range(9):
        worker = rig.launch(PLAIN, options=())
        worker.until("worker started", within=60)
        worker.executors()
        assert worker.stop() == 0
    assert left_by(rig) == []
    assert [path for path in Path("/proc").glob("[0-9]*") if rig.prefix.encode() in _environment(path)] == []


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_two_workers_started_at_the_same_moment_both_serve(rig: Rig) -> None:
    workers = [rig.launch(PLAIN) for _ in range(2)]
    for worker in workers:
        worker.until("worker started", within=60)
    assert {rig.ended(rig.plain()) for _ in range(4)} == {"COMPLETED"}
    assert [worker.stop() for worker in workers] == [0, 0]
    assert left_by(rig) == []
