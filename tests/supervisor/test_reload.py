"""`perago start --reload`: a changed source file restarts the executors after their attempts; a broken one is waited for."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.waiting import eventually
from tests.support.worker_harness import WorkerHarness

from perago.executor import source_files
from perago.model import WorkflowId
from perago.supervisor import source_watch

TASK = """
import os
import time
from pathlib import Path

from pydantic import BaseModel

from perago import task
from shop.words import {word}


class Params(BaseModel):
    gate: str | None = None


class Output(BaseModel):
    said: str


@task(name=os.environ["E2E_PREFIX"] + ".greet", owner_email="tests@example.com")
def greet(params: Params) -> Output:
    if params.gate is not None:
        Path(f"{{params.gate}}.entered").touch()
        while not Path(f"{{params.gate}}.go").exists():
            time.sleep(0.01)
    return Output(said={word})
"""


def greet(harness: WorkerHarness, **params: str) -> WorkflowId:
    return harness.real.start_workflow([harness.step("greet", "it", params)])


def said(harness: WorkerHarness, workflow: WorkflowId) -> str:
    assert harness.ended(workflow) == "COMPLETED"
    return harness.tasks(workflow)[0]["outputData"]["result"]["said"]


def test_changes_are_served_after_running_attempts(harness: WorkerHarness) -> None:
    shop = harness.folder / "shop"
    shop.mkdir(parents=True)
    (shop / "__init__.py").touch()
    words, task = shop / "words.py", shop / "greet.py"
    words.write_text("hello = 'hello'\n")
    task.write_text(TASK.format(word="hello"))
    worker = harness.start("shop.greet", options=("--register", "--reload"))
    (first,) = worker.executors()
    gate = harness.gate()
    running = greet(harness, gate=str(gate))
    gate.reached()

    words.write_text("hello = 'good morning'\n")
    assert worker.until("source files have changed")["files"] == [str(words)]
    assert worker.until("reloading; running attempts finish first")["running"] == 1
    gate.open()
    assert said(harness, running) == "hello"
    worker.until("worker started", count=2)
    assert said(harness, greet(harness)) == "good morning"
    eventually(lambda: worker.executors() and first not in worker.executors(), what="a new executor")

    words.write_text("hello = 'good evening'\nnight = \n")
    broken = worker.until("cannot start after a change; waiting for the next one")
    assert "SyntaxError" in broken["error"]
    words.write_text("night = 'good night'\n")
    worker.until("cannot start after a change; waiting for the next one", count=2)
    task.write_text(TASK.format(word="night"))
    worker.until("worker started", count=3)
    assert said(harness, greet(harness)) == "good night"
    assert worker.stop() == 0


def test_signal_during_a_reload_stops_the_worker_after_its_attempt(harness: WorkerHarness) -> None:
    shop = harness.folder / "shop"
    shop.mkdir(parents=True)
    (shop / "words.py").write_text("hello = 'hello'\n")
    (shop / "greet.py").write_text(TASK.format(word="hello"))
    worker = harness.start("shop.greet", options=("--register", "--reload"))
    gate = harness.gate()
    running = greet(harness, gate=str(gate))
    gate.reached()
    (shop / "words.py").write_text("hello = 'good morning'\n")
    worker.until("reloading; running attempts finish first")
    worker.process.terminate()
    worker.until("worker is stopping; running attempts finish first")
    gate.open()
    assert worker.process.wait(20) == 0
    assert said(harness, running) == "hello"
    assert len(worker.said("worker started")) == 1


def test_only_files_of_the_project_are_watched() -> None:
    files = ["/project/a.py", "/project/sub/b.py", "/project/.venv/lib/c.py", "/elsewhere/d.py", "/project/e.so", "<frozen x>"]
    assert source_files.of_project(files, ["/project"], ["/project/.venv/lib"]) == {"/project/a.py", "/project/sub/b.py"}


def test_files_of_a_failed_import_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("x = (\n")
    with pytest.raises(SyntaxError) as caught:
        compile(wrong.read_text(), str(wrong), "exec")
    assert str(wrong) in source_files.imported(["wrong"], caught.value)


def test_changes_that_follow_each_other_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "INTERVAL_SECONDS", 0.0)
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.touch()
    watch = source_watch.SourceWatch()
    watch.add([str(first), str(second)])
    second.touch()
    os.truncate(first, 3)
    assert asyncio.run(watch.changed()) == [str(first), str(second)]
    first.unlink()
    assert asyncio.run(watch.changed()) == [str(first)]
