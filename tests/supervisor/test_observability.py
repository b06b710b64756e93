"""Logs, metrics, health and status of a worker, and fairness between modules."""

import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, LOOK, PLAIN, WorkerHarness


def status(harness: WorkerHarness, *options: str) -> tuple[int, str]:
    program = [sys.executable, "-c", "from perago.cli.main import main; main()", "status", *options]
    done = subprocess.run(
        program, cwd=harness.folder, env=harness.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


def test_one_summary_line_per_attempt(harness: WorkerHarness) -> None:
    worker = harness.start(GROW)
    base = harness.seed()
    workflow = harness.grow(base, line="one")
    assert harness.ended(workflow) == "COMPLETED"
    line = worker.until("attempt")
    (task,) = harness.tasks(workflow)
    assert (line["workflow_id"], line["task_id"], line["retry_count"]) == (workflow, task["taskId"], 0)
    assert re.fullmatch(r"[0-9a-f]{24}", line["execution_id"])
    assert (line["status"], line["delivery"]) == ("COMPLETED", "accepted")
    assert {"download", "body", "fence", "stage", "publish", "verify"} <= set(line["phases"])
    assert 0 < sum(line["phases"].values()) <= line["seconds"]
    assert line["bytes"] > 0
    files = list((harness.logs / GROW).glob("worker_id=testssupporttasksgrow0000/*.jsonl"))
    assert [json.loads(text) for text in files[0].read_text().splitlines() if '"attempt"' in text][-1] == line


def test_logs_contain_no_secrets(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, E2E_RETRIES="0")
    harness.ended(harness.grow(harness.seed(), line="temporary"))
    worker.until("attempt")
    worker.stop()
    written = worker.output.read_text() + "".join(path.read_text() for path in harness.logs.rglob("*.jsonl"))
    assert harness.stack.secret_access_key not in written
    assert harness.stack.access_key_id not in written


def test_metrics_and_health(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, PLAIN, options=("--register", "--metrics-port", "0"), E2E_RETRIES="0")
    base = harness.seed()
    harness.site.publish("main", {"data/log.txt": b"abandoned\n"})
    assert harness.ended(harness.grow(base, line="one")) == "COMPLETED"
    harness.ended(harness.plain(do="kill"))
    worker.until("attempt", count=2)
    assert worker.fetch("/healthz") == (200, "ok\n")
    # The one executor has just been killed.
    eventually(lambda: worker.fetch("/readyz") == (200, "ready\n"))
    assert worker.fetch("/other")[0] == 404
    shown = worker.fetch("/metrics")[1]
    grow, plain = f"{harness.prefix}.grow", f"{harness.prefix}.plain"
    assert f'perago_attempts_total{{delivery="accepted",status="COMPLETED",task="{grow}"}} 1.0' in shown
    assert f'perago_attempts_total{{delivery="accepted",status="FAILED",task="{plain}"}} 1.0' in shown
    assert f'perago_commits_removed_total{{kind="replace",task="{grow}"}} 1.0' in shown
    assert 'perago_executor_restarts_total{cause="was killed by SIGKILL (9)"} 1.0' in shown
    assert f'perago_phase_seconds_count{{phase="body",task="{grow}"}} 1.0' in shown
    # Delete the staging branch and close the workspace: each is counted once.
    assert f'perago_phase_seconds_count{{phase="clean-up",task="{grow}"}} 2.0' in shown
    assert "perago_revocations_total{" not in shown
    assert "perago_slots 1.0" in shown
    gate = harness.gate()
    harness.plain(gate=str(gate))
    gate.reached()
    assert "perago_busy_slots 1.0" in worker.fetch("/metrics")[1]
    worker.signal(signal.SIGTERM)
    eventually(lambda: worker.fetch("/readyz")[0] == 503)
    assert worker.fetch("/healthz")[0] == 200
    gate.open()
    assert worker.process.wait(10) == 0


def test_status_shows_slots_attempts_and_recent_outcomes(harness: WorkerHarness) -> None:
    harness.folder.mkdir()
    assert status(harness) == (1, "no worker is running here\n")
    worker = harness.start(PLAIN, jobs=2)
    harness.ended(harness.plain())
    gate = harness.gate()
    workflow = harness.plain(gate=str(gate))
    gate.reached()
    task_id = harness.tasks(workflow)[0]["taskId"]

    def shown() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(status(harness, "--json")[1])
        return found if any("attempt" in slot for one in found for slot in one["slots"]) else []

    (state,) = eventually(shown)
    assert state["pid"] == worker.pid
    assert [slot["name"] for slot in state["slots"]] == ["testssupporttasksplain0001", "testssupporttasksplain0002"]
    (attempt,) = [slot["attempt"] for slot in state["slots"] if "attempt" in slot]
    assert (attempt["task_id"], attempt["phase"]) == (task_id, "body")
    assert [one["status"] for one in state["recent"]] == ["COMPLETED"]
    code, text = status(harness)
    assert code == 0
    assert f"worker {worker.pid} ({PLAIN}): serving" in text
    assert re.search(rf"  testssupporttasksplain000[12]  body for \d+\.\d s: {harness.prefix}.plain {task_id} retry 0", text)
    gate.open()
    worker.stop()
    assert status(harness)[0] == 1


def test_status_does_not_show_a_killed_worker(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    eventually(lambda: status(harness)[0] == 0)
    worker.kill()
    assert status(harness) == (1, "no worker is running here\n")
    assert list((harness.logs / ".workers").iterdir()) == []


def test_no_module_starves_with_more_modules_than_slots(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, LOOK, PLAIN, jobs=1)
    base = harness.seed()
    began = time.monotonic()
    flood = [harness.plain() for _ in range(10)]
    workflow = harness.real.start_workflow([harness.step(LOOK, "look", {}, harness.workspace(base))])
    flood += [harness.plain() for _ in range(20)]
    assert harness.ended(workflow) == "COMPLETED"
    assert [harness.ended(one) for one in flood] == ["COMPLETED"] * 30
    worker.until("attempt", count=31)
    order = [line["task_type"] for line in worker.said("attempt")]
    assert order.index(f"{harness.prefix}.look") < 25, order
    assert time.monotonic() - began < 60


def test_different_definition_is_a_warning(harness: WorkerHarness) -> None:
    harness.start(PLAIN).stop()
    worker = harness.start(PLAIN, options=(), E2E_RESPONSE="77")
    warnings = [line["event"] for line in worker.lines() if line.get("level") == "warning"]
    assert any("differs" in text and "responseTimeoutSeconds" in text for text in warnings)
