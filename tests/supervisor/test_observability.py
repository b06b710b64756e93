"""Logs, metrics, health and status of a worker, and fairness between modules."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

from tests.support import alerts
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, LOOK, PLAIN, WorkerHarness

from perago import distribution


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
    assert (line["repository"], line["branch"], line["input_commit"]) == (harness.site.repository, "main", base)
    assert line["output_commit"] == harness.head().id != base
    name = harness.real.call("GET", f"/workflow/{workflow}?includeTasks=false")["workflowName"]
    assert (line["workflow_name"], line["step"]) == (name, "it")
    assert not {"error", "code", "removed_commits"} & set(line)
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
    grow, plain = f"{harness.prefix}.grow", f"{harness.prefix}.plain"
    shown = worker.fetch("/metrics")[1]
    version = f'version="{distribution.version()}"'
    assert re.search(rf'^perago_build_info{{python="3[.\d]+",{re.escape(version)}}} 1.0$', shown, re.MULTILINE)
    for task in (grow, plain):
        assert f'perago_attempts_total{{delivery="unknown",status="FAILED",task="{task}"}} 0.0' in shown
        assert f'perago_attempt_errors_total{{code="PG-360",error="PublishFenceError",task="{task}"}} 0.0' in shown
        assert f'perago_revocations_total{{task="{task}"}} 0.0' in shown
    base = harness.seed()
    abandoned = harness.site.publish("main", {"data/log.txt": b"abandoned\n"})
    with alerts.fires("abandoned publications", worker):
        assert harness.ended(harness.grow(base, line="one")) == "COMPLETED"
    assert worker.until("attempt")["removed_commits"] == [abandoned]
    with alerts.fires("attempts fail", worker), alerts.fires("executors die", worker):
        killed = harness.plain(do="kill")
        harness.ended(killed)
    line = worker.until("attempt", count=2)
    assert (line["error"], line["code"]) == ("ExecutorDied", "PG-390")
    assert harness.tasks(killed)[0]["reasonForIncompletion"] == f"{line['reason']} [PG-390]"
    assert worker.fetch("/healthz") == (200, "ok\n")
    # The one executor has just been killed.
    eventually(lambda: worker.fetch("/readyz") == (200, "ready\n"))
    assert worker.fetch("/other")[0] == 404
    shown = worker.fetch("/metrics")[1]
    assert f'perago_attempt_errors_total{{code="PG-390",error="ExecutorDied",task="{plain}"}} 1.0' in shown
    assert f'perago_attempts_total{{delivery="accepted",status="COMPLETED",task="{grow}"}} 1.0' in shown
    assert f'perago_attempts_total{{delivery="accepted",status="FAILED",task="{plain}"}} 1.0' in shown
    assert f'perago_commits_removed_total{{kind="replace",task="{grow}"}} 1.0' in shown
    assert 'perago_executor_restarts_total{cause="was killed by SIGKILL (9)"} 1.0' in shown
    assert f'perago_phase_seconds_count{{phase="body",task="{grow}"}} 1.0' in shown
    # Delete the staging branch and close the workspace: each is counted once.
    assert f'perago_phase_seconds_count{{phase="clean-up",task="{grow}"}} 2.0' in shown
    assert f'perago_revocations_total{{task="{grow}"}} 0.0' in shown
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
    what = f"{harness.prefix}.plain {task_id[:8]} of workflow {workflow[:8]}"
    assert f"worker {worker.pid} ({PLAIN}): serving" in text
    assert re.search(rf"  testssupporttasksplain000[12]  body for \d+\.\d s: {what} retry 0", text)
    gate.open()
    worker.stop()
    assert status(harness)[0] == 1


def test_status_shows_a_killed_worker_for_a_while(harness: WorkerHarness) -> None:
    worker = harness.start(GROW)
    base, gate = harness.seed(), harness.gate()
    workflow = harness.grow(base, gate=str(gate))
    gate.reached()
    task_id = harness.tasks(workflow)[0]["taskId"]
    eventually(lambda: task_id[:8] in status(harness)[1])
    worker.kill()
    code, text = status(harness)
    assert code == 1
    assert re.fullmatch(
        rf"no worker is running here\nworker {worker.pid} \({GROW}\): died \d+ s ago\n"
        rf"  \w+0001  body for [\d.]+ s: {harness.prefix}.grow {task_id[:8]} of workflow {workflow[:8]} retry 0, "
        rf"{harness.site.repository}/main {base[:12]}\n",
        text,
    )
    (state,) = json.loads(status(harness, "--json")[1])
    assert (state["state"], state["slots"][0]["attempt"]["workflow_id"]) == ("died", workflow)
    for file in (harness.logs / ".workers").iterdir():
        os.utime(file, (time.time() - 7200, time.time() - 7200))
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
