"""Leases: kept whatever the body does to its process; once lost, the body learns of it and nothing is published."""

import time
import urllib.request
from pathlib import Path

from tests.support.worker import GROW, PLAIN, Rig, eventually


def test_a_body_that_holds_the_interpreter_keeps_its_lease(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RESPONSE="3")
    workflow = rig.plain(do="hold", seconds=8)
    assert rig.ended(workflow) == "COMPLETED"
    (task,) = rig.tasks(workflow)
    assert task["status"] == "COMPLETED"
    assert worker.until("attempt")["delivery"] == "accepted"


def test_a_body_that_prints_without_end_keeps_its_lease_and_its_worker_answers(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RESPONSE="3", E2E_RETRIES="0", options=("--register", "--metrics-port", "0"))
    port = worker.said("metrics and health are served")[0]["port"]
    workflow = rig.plain(do="flood", seconds=6)
    eventually(lambda: rig.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    slowest = 0.0
    while rig.tasks(workflow)[0]["status"] == "IN_PROGRESS":
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20):
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 1.0
    assert rig.tasks(workflow)[0]["status"] == "COMPLETED"


def test_a_terminated_workflow_reaches_the_body_as_cancellation(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    found = rig.folder / "found"
    workflow = rig.plain(do="until-cancelled", seconds=60, text=str(found))
    eventually(lambda: rig.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    rig.real.terminate(workflow)
    line = worker.until("attempt")
    assert found.read_text() == "cancelled"
    assert (line["status"], line["delivery"]) == ("FAILED", "superseded")
    assert "CANCELED" in worker.said("attempt called off")[0]["cause"]


def test_a_body_that_does_not_ask_is_interrupted_and_its_executor_lives(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    executor = worker.executors()
    workflow = rig.plain(do="swallow", seconds=60)
    eventually(lambda: rig.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    rig.real.terminate(workflow)
    line = worker.until("attempt", within=30)
    assert "called off" in line["reason"]
    assert worker.executors() == executor
    assert rig.ended(rig.plain()) == "COMPLETED"


def test_a_body_that_refuses_the_signal_is_killed_and_the_slot_recovers(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    (executor,) = worker.executors()
    workflow = rig.plain(do="stubborn", seconds=90)
    eventually(lambda: rig.tasks(workflow)[0]["status"] == "IN_PROGRESS")
    rig.real.terminate(workflow)
    line = worker.until("attempt", within=40)
    assert "SIGKILL" in line["reason"]
    assert rig.ended(rig.plain()) == "COMPLETED"
    assert executor not in worker.executors()


def test_nothing_is_published_for_a_workflow_that_was_terminated_meanwhile(rig: Rig) -> None:
    worker = rig.start(GROW)
    base, gate = rig.seed(), rig.gate()
    workflow = rig.grow(base, gate=str(gate))
    gate.reached()
    rig.real.terminate(workflow)
    gate.open()
    worker.until("attempt")
    assert rig.head().id == base
    assert rig.staging_branches() == []
    assert rig.left_workspaces() == []


def test_a_rerun_meanwhile_leaves_the_older_execution_without_effect(rig: Rig) -> None:
    worker = rig.start(GROW, jobs=2)
    base, gate = rig.seed(), rig.gate()
    workflow = rig.grow(base, gate=str(gate), line="once")
    gate.reached()
    task_id = rig.tasks(workflow)[0]["taskId"]
    rig.real.terminate(workflow)
    rig.real.rerun(workflow, task_id)
    # Both executions wait at the same gate; the older one must be refused, the newer accepted.
    eventually(lambda: (task := rig.tasks(workflow)[0])["status"] == "IN_PROGRESS" and task["taskId"] == task_id)
    gate.open()
    assert rig.ended(workflow) == "COMPLETED"
    worker.until("attempt", count=2)
    deliveries = sorted(line["delivery"] for line in worker.said("attempt"))
    assert deliveries == ["accepted", "superseded"]
    assert rig.history(base) == [rig.head().id, base]
    assert rig.log_at(rig.head().id) == "once\n"


def test_work_beyond_its_timeout_is_called_off_here(rig: Rig) -> None:
    worker = rig.start(PLAIN, E2E_RESPONSE="2", E2E_TIMEOUT="3", E2E_RETRIES="0")
    found = rig.folder / "found"
    began = time.monotonic()
    rig.plain(do="until-cancelled", seconds=60, text=str(found))
    line = worker.until("attempt")
    assert time.monotonic() - began < 15
    assert found.read_text() == "cancelled"
    assert "timeout of 3 s" in worker.said("attempt called off")[0]["cause"]
    assert line["status"] == "FAILED"


def test_a_dead_executor_is_reported_at_once_and_its_retry_completes(rig: Rig) -> None:
    rig.start(PLAIN, E2E_RESPONSE="60")
    rig.ended(rig.plain())
    mark: Path = rig.folder / "mark"
    workflow = rig.plain(do="kill-once", text=str(mark))
    eventually(mark.exists)
    began = time.monotonic()
    eventually(lambda: len(rig.tasks(workflow)) == 2)
    assert time.monotonic() - began < 2.0
    assert rig.ended(workflow) == "COMPLETED"
    first, second = rig.tasks(workflow)
    assert (first["status"], second["status"]) == ("FAILED", "COMPLETED")
    assert "SIGKILL (9) in phase body" in first["reasonForIncompletion"]
