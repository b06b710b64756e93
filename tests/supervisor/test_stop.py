"""Signals: the first drains, the second stops hard, and nothing is left behind, whatever the worker is doing."""

import signal
import time
from pathlib import Path

import pytest
from tests.support.fault_proxy import FaultProxy, cut, silence
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, PLAIN, WorkerHarness, children

ALWAYS = 10**9


def left_by(harness: WorkerHarness) -> list[object]:
    """Processes, workspaces and status files that should have been removed."""
    processes = [pid for worker in harness.workers for pid in worker.survivors()]
    status = [path.name for path in (harness.logs / ".workers").iterdir()] if (harness.logs / ".workers").is_dir() else []
    return [*processes, *status, *harness.left_workspaces(of_idle_executors=True)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_idle_worker_stops_within_two_seconds(harness: WorkerHarness, number: signal.Signals) -> None:
    worker = harness.start(PLAIN, jobs=2)
    began = time.monotonic()
    worker.signal(number)
    assert worker.process.wait(10) == 0
    assert time.monotonic() - began < 2.0
    assert left_by(harness) == []


def test_first_signal_drains(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    gate = harness.gate()
    running, waiting = harness.plain(gate=str(gate)), None
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker is stopping; running attempts finish first")
    waiting = harness.plain()
    gate.open()
    assert worker.process.wait(10) == 0
    assert harness.ended(running) == "COMPLETED"
    assert harness.tasks(waiting)[0]["status"] == "SCHEDULED"
    assert left_by(harness) == []


def test_second_signal_cancels_and_reports_attempts(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RETRIES="0")
    gate = harness.gate()
    workflow = harness.plain(gate=str(gate))
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker is stopping; running attempts finish first")
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 3
    assert time.monotonic() - began < 5
    (task,) = harness.tasks(workflow)
    assert task["status"] == "FAILED"
    assert "the worker was stopped" in task["reasonForIncompletion"]
    assert left_by(harness) == []


def test_force_kill_bound_stops_a_body_that_ignores_signals(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RETRIES="0", PERAGO_SHUTDOWN_FORCE_KILL_AFTER="1s")
    begun = harness.folder / "begun"
    workflow = harness.plain(do="stubborn", seconds=60, text=str(begun))
    eventually(begun.exists)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(15) == 3
    assert 1.0 <= time.monotonic() - began < 12
    (task,) = harness.tasks(workflow)
    assert "SIGKILL" in task["reasonForIncompletion"]
    assert "the worker was stopped" in task["reasonForIncompletion"]
    assert left_by(harness) == []


def test_hard_stop_of_a_workspace_attempt_leaves_nothing_on_lakefs(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, E2E_RETRIES="0")
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate))
    gate.reached()
    worker.signal(signal.SIGTERM)
    worker.until("worker is stopping; running attempts finish first")
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 3
    assert harness.tasks(workflow)[0]["status"] == "FAILED"
    assert harness.head().id == base
    assert harness.staging_branches() == []
    assert left_by(harness) == []


@pytest.mark.parametrize("when", ["at once", "while importing"])
def test_worker_can_be_stopped_while_it_starts(harness: WorkerHarness, when: str) -> None:
    worker = harness.launch(PLAIN, jobs=4)
    # Before its first child Python itself is starting, and a signal simply ends it.
    eventually(lambda: children(worker.pid), within=20)
    if when == "while importing":
        eventually(worker.executors, within=20)
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(10) == 0
    eventually(lambda: left_by(harness) == [], within=3)


@pytest.mark.parametrize("fault", [cut(), silence()], ids=["cut", "silent"])
def test_worker_stops_during_a_conductor_outage(harness: WorkerHarness, fault: object) -> None:
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url)
        proxy.on(".*", fault, times=ALWAYS)  # pyright: ignore[reportArgumentType]
        asked = len(proxy.seen)
        eventually(lambda: len(proxy.seen) > asked)
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(10) == 0
        assert time.monotonic() - began < 4
    assert left_by(harness) == []


def test_undeliverable_result_does_not_delay_a_hard_stop(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url)
        gate = harness.gate()
        harness.plain(gate=str(gate))
        gate.reached()
        proxy.on(".*", silence(), times=ALWAYS)
        gate.open()
        worker.signal(signal.SIGTERM)
        worker.until("worker is stopping; running attempts finish first")
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(20) in {0, 3}
        assert time.monotonic() - began < 12
    assert left_by(harness) == []


def test_hanging_lakefs_does_not_delay_a_hard_stop(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.lakefs_url) as proxy:
        worker = harness.start(GROW, LAKECTL_SERVER_ENDPOINT_URL=proxy.url, E2E_RETRIES="0")
        base, gate = harness.seed(), harness.gate()
        workflow = harness.grow(base, gate=str(gate))
        gate.reached()
        proxy.on(".*", silence(), times=ALWAYS)
        asked = len(proxy.seen)
        gate.open()
        eventually(lambda: len(proxy.seen) > asked)
        worker.signal(signal.SIGTERM)
        worker.until("worker is stopping; running attempts finish first")
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(20) == 3
        assert time.monotonic() - began < 12
        (task,) = harness.tasks(workflow)
        assert "the worker was stopped" in task["reasonForIncompletion"]
        assert worker.survivors() == []
    assert harness.head().id == base


def test_executors_end_with_a_killed_supervisor_and_the_next_worker_sweeps(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, jobs=2)
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate))
    gate.reached()
    assert harness.left_workspaces() != []
    worker.kill()
    eventually(lambda: not worker.survivors(), within=5)
    following = harness.start(GROW)
    following.until("removed attempt directories of dead executors")
    assert harness.left_workspaces() == []
    assert harness.head().id == base
    harness.real.terminate(workflow)
    assert following.stop() == 0


def test_workspaces_of_running_attempts_are_not_swept(harness: WorkerHarness) -> None:
    harness.start(GROW)
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate), line="kept")
    gate.reached()
    other = harness.start(PLAIN)
    other.stop()
    gate.open()
    assert harness.ended(workflow) == "COMPLETED"
    assert harness.log_at(harness.head().id) == "kept\n"


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.chaos)])
def test_starts_and_stops_leave_nothing_behind(harness: WorkerHarness, times: int) -> None:
    harness.start(PLAIN).stop()
    for _ in range(times - 1):
        worker = harness.launch(PLAIN, options=())
        worker.until("worker started", within=60)
        worker.executors()
        assert worker.stop() == 0
    assert left_by(harness) == []
    assert [path for path in Path("/proc").glob("[0-9]*") if harness.prefix.encode() in _environment(path)] == []


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_two_workers_started_together_both_serve(harness: WorkerHarness) -> None:
    workers = [harness.launch(PLAIN) for _ in range(2)]
    for worker in workers:
        worker.until("worker started", within=60)
    assert {harness.ended(harness.plain()) for _ in range(4)} == {"COMPLETED"}
    assert [worker.stop() for worker in workers] == [0, 0]
    assert left_by(harness) == []
