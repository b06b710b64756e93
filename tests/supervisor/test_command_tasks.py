"""Command tasks in a worker: their environment, their output, their end when the attempt is cancelled, and reloading."""

import json
import os
import signal
from pathlib import Path

from tests.support import kill_matrix
from tests.support.command_kill_matrix import CommandTask, processes
from tests.support.local_kill_matrix import PHASES
from tests.support.waiting import eventually
from tests.support.worker_harness import WorkerHarness

from perago.dev.stack import Endpoints
from perago.model import WorkflowId

TASK = """
name = "{prefix}.say"
owner_email = "tests@example.com"
command = ["sh", "say.sh"]
params = "params.json"
result = "result.json"
[controls.retry]
count = 0
"""
PARAMS = {
    "type": "object",
    "properties": {"do": {"type": "string"}, "gate": {"type": "string", "default": ""}},
    "required": ["do"],
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "properties": {"said": {"type": "string", "default": ""}},
    "required": [],
    "additionalProperties": False,
}
SCRIPT = r"""
gate=$(sed 's/.*"gate":"\([^"]*\)".*/\1/' "$PERAGO_PARAMS")
case $(cat) in
*environment*) tr '\0' '\n' < /proc/$$/environ > "$gate"; echo "a line on stdout"; echo "a line on stderr" >&2 ;;
*stubborn*)
    trap 'touch "$gate.told"' TERM
    setsid sh -c "trap '' TERM HUP; while :; do sleep 1; done" &
    touch "$gate.entered"
    while :; do sleep 0.05; done ;;
*) echo '{"said": "hello"}' > "$PERAGO_RESULT" ;;
esac
"""


def write(harness: WorkerHarness) -> Path:
    folder = harness.folder / "tasks"
    folder.mkdir(parents=True)
    (folder / "say.task.toml").write_text(TASK.format(prefix=harness.prefix))
    (folder / "params.json").write_text(json.dumps(PARAMS))
    (folder / "result.json").write_text(json.dumps(RESULT))
    (folder / "say.sh").write_text(SCRIPT)
    return folder


def say(harness: WorkerHarness, **params: str) -> WorkflowId:
    return harness.real.start_workflow([harness.step("say", "it", params)])


def test_a_worker_serves_a_task_file(harness: WorkerHarness) -> None:
    folder = write(harness)
    worker = harness.start("tasks/say.task.toml", CONDUCTOR_AUTH_KEY="", AWS_SECRET_ACCESS_KEY="a-secret")
    executors = worker.executors()

    found = harness.folder / "environment"
    workflow = say(harness, do="environment", gate=str(found))
    assert harness.ended(workflow) == "COMPLETED"
    (task,) = harness.tasks(workflow)
    names = {line.partition("=")[0] for line in found.read_text().splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PERAGO_PARAMS", "PERAGO_RESULT", "PERAGO_TASK_DIR"}
    assert harness.stack.secret_access_key not in found.read_text()
    assert task["outputData"]["result"] == {"said": ""}
    worker.until("attempt")
    printed = {line["event"]: line for line in worker.lines() if "stream" in line}
    assert (printed["a line on stdout"]["stream"], printed["a line on stderr"]["stream"]) == ("stdout", "stderr")
    assert printed["a line on stdout"]["task_id"] == task["taskId"]
    assert list((harness.logs / "tasks.say").glob("worker_id=taskssay0001/*.jsonl"))

    gate = harness.gate()
    workflow = say(harness, do="stubborn", gate=str(gate))
    gate.reached()
    assert len(processes(folder)) > 2
    harness.real.terminate(workflow)
    line = worker.until("attempt", count=2, within=30)
    assert Path(f"{gate}.told").exists(), "the command got no SIGTERM"
    assert "was cancelled" in line["reason"]
    assert worker.executors() == executors, "the executor had to be killed"
    assert processes(folder) == []
    assert harness.ended(say(harness, do="more")) == "COMPLETED"
    assert worker.stop() == 0
    assert harness.left_workspaces(of_idle_executors=True) == []


def test_a_command_that_ends_after_its_attempt_was_given_to_another_worker_publishes_nothing(
    stack: Endpoints, tmp_path: Path
) -> None:
    """The supervisor is stopped while the command runs, so its lease expires; it continues after the retry was accepted."""
    body = next(phase for phase in PHASES if phase.name == "body")
    with kill_matrix.prepare(stack, tmp_path / "harness", CommandTask(), response="3") as matrix:
        late = matrix.worker()
        cell = matrix.begin(body)
        os.kill(late.pid, signal.SIGSTOP)
        other = matrix.worker()
        cell.gate.open()
        assert kill_matrix.ended_after_timeout(matrix.harness, cell.workflow) == "COMPLETED"
        os.kill(late.pid, signal.SIGCONT)
        line = late.until("attempt")
        assert line["status"] == "FAILED"
        # Unknown: the lease is over, so nothing is sent.
        assert line["delivery"] in {"superseded", "unknown"}
        cell.check_at_end(other)


def test_its_files_are_watched(harness: WorkerHarness) -> None:
    folder = write(harness)
    worker = harness.start("tasks/say.task.toml", options=("--register", "--reload"))
    result = folder / "result.json"
    result.write_text("{")
    broken = worker.until("cannot start after a change; waiting for the next one")
    assert "result: the schema file 'result.json' is not JSON" in broken["error"]
    result.write_text(json.dumps({**RESULT, "required": ["said"], "properties": {"said": {"type": "string"}}}))
    worker.until("worker started", count=2)
    script = folder / "say.sh"
    script.write_text(SCRIPT.replace("hello", "good morning"))
    assert worker.until("source files have changed", count=3)["files"] == [str(script)]
    worker.until("worker started", count=3)
    workflow = say(harness, do="say")
    eventually(lambda: harness.tasks(workflow)[0]["status"] == "COMPLETED", what="the end of the task")
    assert harness.tasks(workflow)[0]["outputData"]["result"] == {"said": "good morning"}
    assert worker.stop() == 0
