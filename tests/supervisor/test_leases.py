"""Leases: kept whatever the body does to its process; once lost, the body learns of it and nothing is published."""

import time
import urllib.request
from pathlib import Path

from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, PLAIN, WorkerHarness


def test_body_that_holds_the_interpreter_keeps_its_lease(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RESPONSE="3")
    workflow = harness.plain(do="hold", seconds=8)
    assert harness.ended(workflow) == "COMPLETED"
    (task,) = harness.tasks(workflow)
    assert task["status"] == "COMPLETED"
    assert worker.until("attempt")["delivery"] == "accepted"


def test_body_that_floods_stdout_keeps_its_lease_and_a_responsive_worker(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RESPONSE="3", E2E_RETRIES="0", options=("--register", "--metrics-port", "0"))
    port = worker.said("serving metrics and health checks")[0]["port"]
    workflow = harness.plain(do="flood", seconds=6)
    eventually(lambda: harness.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    slowest = 0.0
    while harness.tasks(workflow)[0]["status"] == "IN_PROGRESS":
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20):
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 1.0
    assert harness.tasks(workflow)[0]["status"] == "COMPLETED"


def test_terminated_workflow_cancels_the_body(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    found = harness.folder / "found"
    workflow = harness.plain(do="until-cancelled", seconds=60, text=str(found))
    eventually(lambda: harness.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    harness.real.terminate(workflow)
    line = worker.until("attempt")
    assert found.read_text() == "cancelled"
    assert (line["status"], line["delivery"]) == ("FAILED", "superseded")
    assert "CANCELED" in worker.said("attempt cancelled")[0]["cause"]


def test_body_that_does_not_check_is_interrupted_and_its_executor_survives(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    executor = worker.executors()
    workflow = harness.plain(do="swallow", seconds=60)
    eventually(lambda: harness.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    harness.real.terminate(workflow)
    line = worker.until("attempt", within=30)
    assert "was cancelled" in line["reason"]
    assert worker.executors() == executor
    assert harness.ended(harness.plain()) == "COMPLETED"


def test_body_that_ignores_the_signal_is_killed_and_the_slot_recovers(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    (executor,) = worker.executors()
    workflow = harness.plain(do="stubborn", seconds=90)
    eventually(lambda: harness.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    harness.real.terminate(workflow)
    line = worker.until("attempt", within=40)
    assert "SIGKILL" in line["reason"]
    assert harness.ended(harness.plain()) == "COMPLETED"
    assert executor not in worker.executors()


def test_attempt_of_a_terminated_workflow_publishes_nothing(harness: WorkerHarness) -> None:
    worker = harness.start(GROW)
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate))
    gate.reached()
    harness.real.terminate(workflow)
    gate.open()
    worker.until("attempt")
    assert harness.head().id == base
    assert harness.staging_branches() == []
    assert harness.left_workspaces() == []


def test_rerun_leaves_the_older_execution_without_effect(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, jobs=2)
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate), line="once")
    gate.reached()
    task_id = harness.tasks(workflow)[0]["taskId"]
    harness.real.terminate(workflow)
    harness.real.rerun(workflow, task_id)
    # Both executions wait at the same gate; the older one must be refused, the newer accepted.
    eventually(lambda: (task := harness.tasks(workflow)[0])["status"] == "IN_PROGRESS" and task["taskId"] == task_id)
    gate.open()
    assert harness.ended(workflow) == "COMPLETED"
    worker.until("attempt", count=2)
    deliveries = sorted(line["delivery"] for line in worker.said("attempt"))
    assert deliveries == ["accepted", "superseded"]
    assert harness.history(base) == [harness.head().id, base]
    assert harness.log_at(harness.head().id) == "once\n"


def test_attempt_beyond_its_timeout_is_cancelled(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RESPONSE="2", E2E_TIMEOUT="3", E2E_RETRIES="0")
    found = harness.folder / "found"
    began = time.monotonic()
    harness.plain(do="until-cancelled", seconds=60, text=str(found))
    line = worker.until("attempt")
    assert time.monotonic() - began < 15
    assert found.read_text() == "cancelled"
    assert "timeout of 3 s" in worker.said("attempt cancelled")[0]["cause"]
    assert line["status"] == "FAILED"


def test_dead_executor_is_reported_at_once_and_the_retry_completes(harness: WorkerHarness) -> None:
    harness.start(PLAIN, E2E_RESPONSE="60")
    harness.ended(harness.plain())
    mark: Path = harness.folder / "mark"
    workflow = harness.plain(do="kill-once", text=str(mark))
    eventually(mark.exists)
    began = time.monotonic()
    eventually(lambda: len(harness.tasks(workflow)) == 2)
    assert time.monotonic() - began < 2.0
    assert harness.ended(workflow) == "COMPLETED"
    first, second = harness.tasks(workflow)
    assert (first["status"], second["status"]) == ("FAILED", "COMPLETED")
    assert "SIGKILL (9) in phase body" in first["reasonForIncompletion"]
