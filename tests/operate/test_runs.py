"""`perago watch`, `runs`, `pause`, `resume`, `retry` and `cancel` on a real Conductor."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from tests.support import fault_proxy
from tests.support.conductor_sites import take
from tests.support.operator import OperatorHarness
from tests.support.waiting import eventually

from perago.errors import TaskStatus
from perago.model import Outcome, TaskType, WorkflowId

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Runs:
    """Workflows of one task type, whose tasks the test itself completes."""

    harness: OperatorHarness
    type: TaskType

    def step(self, reference: str) -> dict[str, Any]:
        return {"name": self.type, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": {"params": {}}}

    def start(self, *tasks: Json) -> WorkflowId:
        return self.harness.real.start_workflow(tasks)

    def definition(self, *tasks: Json) -> str:
        """A registered workflow, to be called."""
        made = {"name": f"called_{uuid.uuid4().hex[:10]}", "version": 1, "schemaVersion": 2, "tasks": tasks}
        made |= {"ownerEmail": "tests@example.com", "timeoutSeconds": 0, "timeoutPolicy": "ALERT_ONLY"}
        self.harness.real.call("PUT", "/metadata/workflow", [made])
        return str(made["name"])

    def complete(self, **result: Any) -> None:
        self._report(Outcome(TaskStatus.COMPLETED, {"result": result}))

    def publish(self, ref: str) -> None:
        self._report(Outcome(TaskStatus.COMPLETED, {"workspace": {"ref": ref}, "result": {}}))

    def fail(self, reason: str, status: TaskStatus = TaskStatus.FAILED) -> None:
        self._report(Outcome(status, reason=reason))

    def _report(self, outcome: Outcome) -> None:
        conductor = self.harness.real.conductor
        conductor.report(take(conductor, self.type).attempt, outcome, timeout=20)

    def status(self, run: WorkflowId) -> str:
        return self.harness.real.workflow_status(run)

    def until(self, run: WorkflowId, status: str) -> None:
        eventually(lambda: self.status(run) == status, what=f"{run} is {status}")


@pytest.fixture
def runs(harness: OperatorHarness) -> Runs:
    return Runs(harness, harness.real.task_type(retryCount=1, retryDelaySeconds=0))


def lines(text: str) -> list[str]:
    """Without the times that they took."""
    return [line.split(" in ")[0] + line.partition(" s")[2] if " in " in line else line for line in text.splitlines()]


def dynamic(references: Sequence[str], step: Json) -> list[dict[str, Any]]:
    tasks = [{**step, "taskReferenceName": reference} for reference in references]
    fork = {"name": "days", "taskReferenceName": "days", "type": "FORK_JOIN_DYNAMIC"}
    fork |= {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    fork |= {"inputParameters": {"tasks": tasks, "inputs": {reference: {} for reference in references}}}
    return [fork, {"name": "join", "taskReferenceName": "days_join", "type": "JOIN"}]


def test_each_change_of_state_is_a_line_in_a_pipe(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"), runs.step("second"))
    runs.fail("not yet [PG-310]")
    runs.publish("c" * 64)
    runs.complete(rows=12345, share=0.5, name="x")
    runs.until(run, "COMPLETED")
    said = harness.perago("watch", run)
    assert (said.code, said.err) == (0, "")
    assert lines(said.out) == [
        "first: FAILED: not yet [PG-310]",
        "first, attempt 2: COMPLETED, commit cccccccccccc",
        "second: COMPLETED: rows 12,345, share 0.50, name x",
        f"run {run} of {harness.real.call('GET', f'/workflow/{run}')['workflowName']}: COMPLETED",
    ]


def test_a_run_is_followed_while_it_runs(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"), runs.step("second"))
    program = [sys.executable, "-c", "from perago.cli.main import main; main()", "watch", run]
    with subprocess.Popen(
        program, env={**os.environ, **harness.stack.environment()}, cwd=harness.folder, stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().endswith(": RUNNING\n")
        runs.complete()
        assert watching.stdout.readline().startswith("first: COMPLETED in ")
        runs.complete()
        rest = watching.stdout.read()
    assert "second: COMPLETED in " in rest
    assert watching.returncode == 0


def test_interrupted_the_run_goes_on(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"))
    program = [sys.executable, "-c", "from perago.cli.main import main; main()", "watch", run]
    with subprocess.Popen(
        program,
        env={**os.environ, **harness.stack.environment()},
        cwd=harness.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert err == f"no longer watching; the run goes on. perago watch {run} shows it again, perago cancel {run} ends it\n"
    assert runs.status(run) == "RUNNING"


@pytest.mark.parametrize(
    ("status", "code", "ended"), [("FAILED", 3, "FAILED"), ("FAILED_WITH_TERMINAL_ERROR", 4, "FAILED"), ("", 6, "TERMINATED")]
)
def test_exit_codes_and_the_reason_of_a_failure(harness: OperatorHarness, runs: Runs, status: str, code: int, ended: str) -> None:
    run = runs.start(runs.step("first"))
    if status:
        runs.fail("broken", TaskStatus(status))
        if status == "FAILED":
            runs.fail("still broken")
    else:
        runs.harness.terminate(run)
    runs.until(run, ended)
    said = harness.perago("watch", run, "--json")
    assert said.code == code
    assert said.json["status"] == ended
    expected = {3: "step first, attempt 2: still broken", 4: "step first, attempt 1: broken", 6: "test"}[code]
    assert said.err.splitlines()[0] == f"error: run {run} ended with {ended}: {expected}"


def test_the_document_of_a_run(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"))
    runs.complete(rows=1)
    runs.until(run, "COMPLETED")
    found = harness.perago("watch", run, "--json").json
    (step,) = found.pop("steps")
    assert found.keys() == {"run", "pipeline", "version", "status", "reason", "started", "seconds", "output"}
    assert (found["run"], found["status"], found["reason"], found["version"]) == (run, "COMPLETED", None, 1)
    assert step.pop("seconds") >= 0
    assert step.pop("task_id")
    place = {"step": "first", "iteration": None, "depth": 0, "attempt": 1, "task": runs.type, "workflow_id": run}
    assert step == {**place, "status": "COMPLETED", "commit": None, "result": {"rows": 1}, "reason": None}


def test_called_pipelines_are_indented_and_iterations_named(harness: OperatorHarness, runs: Runs) -> None:
    called = runs.definition(runs.step("inner"))
    call = {
        "name": "call",
        "taskReferenceName": "call",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": called, "version": 1},
    }
    loop = {"name": "loop", "taskReferenceName": "loop", "type": "DO_WHILE", "loopOver": [runs.step("train")]}
    loop |= {"evaluatorType": "graaljs", "loopCondition": "$.loop['iteration'] < 2"}
    run = runs.start(call, loop)
    for _ in range(3):
        runs.complete()
    runs.until(run, "COMPLETED")
    assert lines(harness.perago("watch", run).out)[:-1] == [
        "call: COMPLETED",
        "  inner: COMPLETED",
        "train (iteration 1): COMPLETED",
        "train (iteration 2): COMPLETED",
    ]


def test_many_lanes_are_counted_and_failed_ones_named(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(*dynamic([f"days_{number}" for number in range(12)], runs.step("")))
    for _ in range(3):
        runs.complete()
    runs.fail("no data for this day", TaskStatus.FAILED_WITH_TERMINAL_ERROR)
    runs.until(run, "FAILED")
    said = harness.perago("watch", run, "--json")
    assert said.code == 4
    (row,) = said.json["steps"]
    assert (row["step"], row["lanes"]["done"], sum(row["lanes"].values())) == ("days", 3, 12)
    assert "no data for this day" in [one["reason"] for one in row["failures"]]
    shown = lines(harness.perago("watch", run).out)
    assert shown[0].startswith("days, 12 lanes: 3 done, ")
    few = runs.start(*dynamic(["days_0", "days_1"], runs.step("")))
    runs.complete()
    runs.complete()
    runs.until(few, "COMPLETED")
    assert lines(harness.perago("watch", few).out)[:-1] == ["days_0: COMPLETED", "days_1: COMPLETED"]


def test_a_live_table_on_a_terminal(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"), runs.step("second"))
    runs.publish("c" * 64)
    runs.complete(rows=7)
    runs.until(run, "COMPLETED")
    terminal = {"TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
    with mock.patch.dict(harness.environment, terminal), mock.patch("rich.console.Console.is_terminal", new=True):
        said = harness.perago("watch", run)
    assert said.code == 0
    for part in ("step", "attempt", "status", "seconds", "commit", "result", "first", "cccccccccccc", "rows 7", "COMPLETED"):
        assert part in said.out


def test_runs_lists_the_newest_first(harness: OperatorHarness, runs: Runs) -> None:
    called = runs.definition(runs.step("inner"))
    older, newer = (WorkflowId(harness.real.call("POST", "/workflow", {"name": called, "version": 1})) for _ in range(2))
    try:
        eventually(lambda: len(harness.perago("runs", "--pipeline", called, "--json").json["runs"]) == 2, what="the index")
        found = harness.perago("runs", "--pipeline", called, "--json").json["runs"]
        assert [one["run"] for one in found] == [newer, older]
        assert found[0].keys() == {"run", "pipeline", "version", "status", "started", "ended", "reason"}
        assert (found[0]["pipeline"], found[0]["status"], found[0]["ended"]) == (called, "RUNNING", None)
        (line,) = harness.perago("runs", "--pipeline", called, "--limit", "1").out.splitlines()
        assert line.split() == [newer, found[0]["started"], "RUNNING", called]
        harness.terminate(older)
        ended = ("runs", "--pipeline", called, "--status", "terminated", "--json")
        eventually(lambda: [one["run"] for one in harness.perago(*ended).json["runs"]] == [older], what="the index")
    finally:
        harness.terminate(newer)
    assert harness.perago("runs", "--pipeline", "no.such.pipeline").out == "no runs\n"
    wrong = harness.perago("runs", "--status", "done")
    assert (wrong.code, "done is not one of RUNNING, PAUSED," in wrong.err) == (2, True)


def test_a_run_is_named_by_the_beginning_of_its_id(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"))
    runs.complete()
    runs.until(run, "COMPLETED")
    eventually(lambda: harness.perago("watch", run[:8], "--json").code == 0, what="the index")
    assert harness.perago("watch", run[:13], "--json").json["run"] == run
    short = harness.perago("watch", run[:7])
    assert (short.code, "give at least 8 characters, or last" in short.err) == (1, True)
    none = harness.perago("watch", "00000000-none")
    assert (none.code, "no run begins with 00000000-none; perago runs lists the newest" in none.err) == (1, True)
    unknown = str(uuid.uuid4())
    for command in ("watch", "pause", "resume", "retry", "cancel"):
        said = harness.perago(command, unknown)
        assert (said.code, f"does not know run {unknown}; perago runs lists the newest" in said.err) == (1, True)


def test_pause_and_resume_include_called_pipelines(harness: OperatorHarness, runs: Runs) -> None:
    called = runs.definition(runs.step("inner"))
    call = {
        "name": "call",
        "taskReferenceName": "call",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": called, "version": 1},
    }
    run = runs.start(call)

    def inner() -> WorkflowId:
        (task,) = harness.real.call("GET", f"/workflow/{run}?includeTasks=true")["tasks"]
        return WorkflowId(task.get("subWorkflowId") or "")

    eventually(inner, what="the call")
    assert harness.perago("resume", run).err == f"error: run {run} is RUNNING; nothing to resume [PG-100]\n"
    said = harness.perago("pause", run)
    assert (said.code, said.out) == (0, f"run {run} is paused; perago resume {run} lets it go on\n")
    assert (runs.status(run), runs.status(inner())) == ("PAUSED", "PAUSED")
    assert harness.perago("pause", run).err == f"error: run {run} is PAUSED; nothing to pause [PG-100]\n"
    assert harness.perago("retry", run).err == f"error: run {run} is PAUSED; nothing to retry [PG-100]\n"
    assert harness.perago("resume", run).code == 0
    assert (runs.status(run), runs.status(inner())) == ("RUNNING", "RUNNING")
    runs.complete()
    runs.until(run, "COMPLETED")
    for verb in ("pause", "resume", "retry", "cancel"):
        assert harness.perago(verb, run).err == f"error: run {run} is COMPLETED; nothing to {verb} [PG-100]\n"


def test_cancel_ends_called_pipelines_and_keeps_the_reason(harness: OperatorHarness, runs: Runs) -> None:
    called = runs.definition(runs.step("inner"))
    call = {
        "name": "call",
        "taskReferenceName": "call",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": called, "version": 1},
    }
    run = runs.start(call)
    said = harness.perago("cancel", run, "--reason", "wrong input")
    assert (said.code, said.out) == (0, f"run {run} is cancelled\n")
    found = harness.real.call("GET", f"/workflow/{run}")
    assert (found["status"], found["reasonForIncompletion"]) == ("TERMINATED", "wrong input")
    assert harness.perago("cancel", run).err == f"error: run {run} is TERMINATED; nothing to cancel [PG-100]\n"


def test_retry_runs_the_failed_step_again_inside_a_called_pipeline(harness: OperatorHarness, runs: Runs) -> None:
    called = runs.definition(runs.step("inner"))
    call = {
        "name": "call",
        "taskReferenceName": "call",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": called, "version": 1},
    }
    run = runs.start(runs.step("first"), call)
    runs.complete()
    for _ in range(2):
        runs.fail("boom [PG-310]")
    runs.until(run, "FAILED")
    failed = harness.perago("watch", run)
    assert failed.code == 3
    assert failed.err.splitlines() == [
        f"error: run {run} ended with FAILED: step inner, attempt 2: boom [PG-310]",
        f"perago retry {run} runs the step that failed again",
    ]
    said = harness.perago("retry", run)
    assert (said.code, said.out) == (0, f"run {run} goes on; perago watch {run} shows it\n")
    runs.complete()
    runs.until(run, "COMPLETED")
    steps = harness.perago("watch", run, "--json").json["steps"]
    assert [(one["step"], one["status"]) for one in steps if one["step"] != "call"] == [
        ("first", "COMPLETED"),
        *[("inner", "FAILED")] * 2,
        ("inner", "COMPLETED"),
    ]


@pytest.mark.parametrize(("verb", "pattern"), [("cancel", "DELETE /api/workflow"), ("pause", "PUT .*/pause")])
def test_the_lost_reply_of_a_change_is_settled_by_reading(harness: OperatorHarness, runs: Runs, verb: str, pattern: str) -> None:
    run = runs.start(runs.step("first"))
    with fault_proxy.FaultProxy(harness.stack.conductor_url.removesuffix("/api")) as proxy:
        proxy.on(pattern, fault_proxy.drop_reply())
        harness.environment["CONDUCTOR_SERVER_URL"] = f"{proxy.url}/api"
        said = harness.perago(verb, run)
    assert (said.code, said.err) == (0, "")
    assert runs.status(run) == {"cancel": "TERMINATED", "pause": "PAUSED"}[verb]


def test_conductor_is_waited_for(harness: OperatorHarness, runs: Runs) -> None:
    run = runs.start(runs.step("first"))
    with fault_proxy.FaultProxy(harness.stack.conductor_url.removesuffix("/api")) as proxy:
        harness.environment["CONDUCTOR_SERVER_URL"] = f"{proxy.url}/api"
        proxy.on("GET /api/workflow", fault_proxy.answer(503), times=10**6)
        said = harness.perago("watch", run, "--wait", "0")
        assert said.code == 1
        assert f"error: Conductor has not answered for 0 s; the run goes on when it is back: perago watch {run}" in said.err
        runs.complete()
        runs.until(run, "COMPLETED")
        healing = threading.Timer(2.0, proxy.heal)
        healing.start()
        said = harness.perago("watch", run, "--wait", "60")
        healing.join()
    assert said.code == 0
    assert said.err.splitlines() == [
        "Conductor does not answer; waiting for it for 60 s at most",
        "Conductor answers again",
    ]
