"""What bodies do to their process, and that the next one does not notice."""

import json
import os
import signal
from pathlib import Path

from tests.worker.rig import PLAIN, Rig, alive, eventually


def test_what_a_body_prints_is_in_the_log_with_its_attempt(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    workflow = rig.plain(do="print")
    assert rig.ended(workflow) == "COMPLETED"
    (task,) = rig.tasks(workflow)
    worker.until("attempt")
    printed = {line["event"]: line for line in worker.lines() if "stream" in line}
    assert printed["a line on stdout ü"]["stream"] == "stdout"
    assert printed["a line on stderr"]["stream"] == "stderr"
    assert printed[r"bytes \xff straight to the descriptor"]["task_id"] == task["taskId"]
    assert printed["a line on stdout ü"]["workflow_id"] == workflow
    (file,) = (rig.logs / PLAIN).glob("worker_id=testsworkertasksplain0001/*.jsonl")
    assert "a line on stderr" in file.read_text()


def test_a_mess_is_cleaned_up_before_the_next_attempt(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    executors = worker.executors()
    assert rig.ended(rig.plain(do="mess")) == "COMPLETED"
    found = rig.folder / "found"
    assert rig.ended(rig.plain(do="look-around", text=str(found))) == "COMPLETED"
    assert json.loads(found.read_text()) == [None, str(rig.folder), False]
    remarks = [line["event"] for line in worker.lines() if line.get("level") == "warning"]
    assert "the body changed the working directory" in remarks
    assert "the body changed environment variables" in remarks
    assert "the body set signal handlers: SIGTERM" in remarks
    assert "the body left threads running: left-behind" in remarks
    assert worker.executors() == executors


def test_a_fork_that_comes_back_out_of_the_body_reports_nothing(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    workflow = rig.plain(do="fork", text="parent")
    assert rig.ended(workflow) == "COMPLETED"
    (task,) = rig.tasks(workflow)
    assert task["outputData"] == {"result": {"said": "parent"}}
    assert rig.ended(rig.plain()) == "COMPLETED"
    worker.until("attempt", count=2)
    assert len(worker.said("attempt")) == 2


def test_what_a_body_started_dies_with_its_executor(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    noted = rig.folder / "child"
    rig.plain(do="child", text=str(noted), seconds=60)
    child = int(eventually(lambda: noted.exists() and noted.read_text()))
    (executor,) = worker.executors()
    os.kill(executor, signal.SIGKILL)
    eventually(lambda: not alive(child), within=5)


def test_what_a_body_started_dies_with_a_killed_supervisor(rig: Rig) -> None:
    worker = rig.start(PLAIN)
    noted: Path = rig.folder / "child"
    rig.plain(do="child", text=str(noted), seconds=60)
    child = int(eventually(lambda: noted.exists() and noted.read_text()))
    worker.executors()
    worker.kill()
    eventually(lambda: not worker.survivors(), within=5)
    eventually(lambda: not alive(child), within=5)
