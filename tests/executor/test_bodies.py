"""Bodies that change their process or start others: nothing of it reaches the next attempt."""

import json
import os
import signal
from pathlib import Path

from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, PLAIN, WorkerHarness, alive, children


def test_output_of_a_body_is_logged_with_its_attempt(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    workflow = harness.plain(do="print")
    assert harness.ended(workflow) == "COMPLETED"
    (task,) = harness.tasks(workflow)
    worker.until("attempt")
    printed = {line["event"]: line for line in worker.lines() if "stream" in line}
    assert printed["a line on stdout ü"]["stream"] == "stdout"
    assert printed["a line on stderr"]["stream"] == "stderr"
    assert printed[r"bytes \xff straight to the descriptor"]["task_id"] == task["taskId"]
    assert printed["a line on stdout ü"]["workflow_id"] == workflow
    (file,) = (harness.logs / PLAIN).glob("worker_id=testssupporttasksplain0001/*.jsonl")
    assert "a line on stderr" in file.read_text()


PRINTED = "a line on stdout ü\nbytes \\xff straight to the descriptor\na line on stderr"


def test_output_of_a_body_is_in_the_task_log(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, jobs=2)
    gate = harness.gate()
    quick, slow = harness.plain(do="print"), harness.plain(do="print", text=str(gate))
    assert harness.ended(quick) == "COMPLETED"
    (shown,) = harness.real.logs(harness.tasks(quick)[0]["taskId"])
    assert sorted(shown.splitlines()) == sorted(PRINTED.splitlines())
    (task,) = harness.tasks(slow)
    (shown,) = eventually(lambda: harness.real.logs(task["taskId"]), what="lines in the task log")
    assert sorted(shown.splitlines()) == sorted(PRINTED.splitlines())
    assert harness.tasks(slow)[0]["status"] == "IN_PROGRESS"
    gate.open()
    assert harness.ended(slow) == "COMPLETED"
    worker.until("attempt", count=2)
    assert harness.real.logs(task["taskId"]) == [shown]


def test_last_lines_before_a_crash_keep_their_task(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RETRIES="0")
    workflow = harness.plain(do="print-and-die")
    assert harness.ended(workflow) == "FAILED"
    (task,) = harness.tasks(workflow)
    last = worker.until("the last words")
    assert (last["task_id"], last["stream"]) == (task["taskId"], "stderr")
    printed = [line for line in worker.lines() if line.get("stream") == "stdout"]
    assert [line["event"] for line in printed] == [str(number) for number in range(5000)]
    assert {line.get("task_id") for line in printed} == {task["taskId"]}
    shown = harness.real.logs(task["taskId"])[-1]
    reason, left_out, *rest = shown.splitlines()
    assert f"{reason} [PG-390]" == task["reasonForIncompletion"]
    assert "lines left out" in left_out
    assert len(rest) == 41
    assert "the last words" in rest


def test_process_state_is_restored_before_the_next_attempt(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    executors = worker.executors()
    assert harness.ended(harness.plain(do="mess")) == "COMPLETED"
    found = harness.folder / "found"
    assert harness.ended(harness.plain(do="look-around", text=str(found))) == "COMPLETED"
    variable, directory, is_ignored = json.loads(found.read_text())
    assert (variable, is_ignored) == (None, False)
    assert Path(directory).parents[1] == harness.workspaces
    remarks = [line["event"] for line in worker.lines() if line.get("level") == "warning"]
    assert "the body changed the working directory" in remarks
    assert "the body changed environment variables" in remarks
    assert "the body set signal handlers: SIGTERM" in remarks
    assert "the body left threads running: left-behind" in remarks
    assert worker.executors() == executors


def test_a_body_runs_in_its_workspace_and_what_can_only_fail_does_so_before(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, GROW, E2E_RETRIES="0")
    base, here = harness.seed(), set(harness.folder.iterdir())
    assert harness.ended(harness.grow(base, line="relative")) == "COMPLETED"
    assert harness.site.content("main")["data/relative.txt"] == b"written by a relative path"

    assert harness.ended(harness.plain(do="look-around", text="lost.json")) == "COMPLETED"
    (warning,) = [line["event"] for line in worker.lines() if line.get("level") == "warning"]
    assert warning.startswith("the body left files in its working directory, which are not published: lost.json; ")
    assert harness.left_workspaces() == []
    assert set(harness.folder.iterdir()) - here <= {harness.workspaces, harness.logs}

    gate, head = harness.gate(), harness.head().id
    elsewhere = {**harness.workspace(head), "repository": "there-is-no-such-repository"}
    assert refusal(harness, gate, elsewhere) == (
        "repository there-is-no-such-repository does not exist in lakeFS; correct workspace.repository, or create the repository"
    )
    no_branch = refusal(harness, gate, {**harness.workspace(head), "branch": "none"})
    assert no_branch == f"branch none does not exist in repository {harness.site.repository}"
    found_nothing = "the expression in the workflow's inputParameters found nothing; check the names of the step or input"
    assert f"workspace is null: {found_nothing}" in refusal(harness, gate, "${workflow.input.workspace}")
    one_null = {**harness.workspace(head), "ref": "${workflow.input.workspace.ref}"}
    assert f"workspace.ref is null: {found_nothing}" in refusal(harness, gate, one_null)
    assert not Path(f"{gate}.entered").exists(), "the body of none of them ran"


def refusal(harness: WorkerHarness, gate: object, workspace: object) -> str:
    workflow = harness.real.start_workflow([harness.step(GROW, "it", {"gate": str(gate)}, workspace)])
    assert harness.ended(workflow) == "FAILED"
    reason, bracket, code = harness.tasks(workflow)[0]["reasonForIncompletion"].rpartition(" [PG-")
    assert bracket
    assert code.endswith("]")
    return reason


def test_forked_child_that_returns_from_the_body_reports_nothing(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    workflow = harness.plain(do="fork", text="parent")
    assert harness.ended(workflow) == "COMPLETED"
    (task,) = harness.tasks(workflow)
    assert task["outputData"] == {"result": {"said": "parent"}}
    assert harness.ended(harness.plain()) == "COMPLETED"
    worker.until("attempt", count=2)
    assert len(worker.said("attempt")) == 2


def test_processes_of_a_body_end_with_its_executor(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    noted = harness.folder / "child"
    harness.plain(do="child", text=str(noted), seconds=60)
    child = int(eventually(lambda: noted.exists() and noted.read_text()))
    (executor,) = worker.executors()
    os.kill(executor, signal.SIGKILL)
    eventually(lambda: not alive(child), within=5)


def test_processes_of_a_body_end_with_a_killed_supervisor(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    noted: Path = harness.folder / "child"
    harness.plain(do="child", text=str(noted), seconds=60)
    child = int(eventually(lambda: noted.exists() and noted.read_text()))
    worker.executors()
    worker.kill()
    eventually(lambda: not worker.survivors(), within=5)
    eventually(lambda: not alive(child), within=5)


def daemon(harness: WorkerHarness, name: str = "daemon", seconds: float = 0) -> int:
    """A process that a body started and abandoned: another session, parent and environment."""
    noted: Path = harness.folder / name
    harness.plain(do="daemon", text=str(noted), seconds=seconds)
    return int(eventually(lambda: noted.exists() and noted.read_text()))


def test_daemon_outlives_its_attempt_but_not_its_executor(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    left = daemon(harness)
    worker.until("attempt")
    assert harness.ended(harness.plain()) == "COMPLETED"
    assert alive(left)
    (executor,) = worker.executors()
    os.kill(executor, signal.SIGKILL)
    eventually(lambda: not alive(left), within=5)
    eventually(lambda: worker.executors() not in ([], [executor]))


def test_daemon_that_exits_is_reaped(harness: WorkerHarness) -> None:
    harness.start(PLAIN)
    left = daemon(harness)
    os.kill(left, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{left}").exists(), within=5)


def test_daemons_end_with_a_killed_supervisor(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, jobs=2)
    left = [daemon(harness, "idle"), daemon(harness, "busy", seconds=60)]
    worker.executors()
    worker.kill()
    eventually(lambda: not worker.survivors() and not any(map(alive, left)), within=5)


def test_daemons_end_with_a_stopped_worker(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    left = daemon(harness)
    worker.until("attempt")
    assert worker.stop() == 0
    assert not alive(left)


def test_daemons_of_a_cancelled_attempt_are_killed_and_its_executor_survives(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN)
    executors = worker.executors()
    noted: Path = harness.folder / "daemon"
    workflow = harness.plain(do="daemon", text=str(noted), seconds=60)
    left = int(eventually(lambda: noted.exists() and noted.read_text()))
    harness.real.terminate(workflow)
    worker.until("attempt", within=30)
    eventually(lambda: not alive(left), within=5)
    assert worker.executors() == executors


def test_killed_guardian_ends_everything_and_the_slot_recovers(harness: WorkerHarness) -> None:
    worker = harness.start(PLAIN, E2E_RETRIES="0")
    left = [daemon(harness, "idle")]
    worker.until("attempt")
    noted: Path = harness.folder / "busy"
    workflow = harness.plain(do="daemon", text=str(noted), seconds=60)
    left.append(int(eventually(lambda: noted.exists() and noted.read_text())))
    (executor,) = worker.executors()
    (guardian,) = children(worker.pid)
    os.kill(guardian, signal.SIGKILL)
    assert harness.ended(workflow) == "FAILED"
    assert "the executor was killed by SIGKILL (9) in phase body" in harness.tasks(workflow)[0]["reasonForIncompletion"]
    eventually(lambda: not any(map(alive, [executor, *left])), within=5)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), within=5, what="all children are reaped")
    assert harness.ended(harness.plain()) == "COMPLETED"
