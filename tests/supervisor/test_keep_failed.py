"""A worker keeps what a body left that failed its post checks, and `perago inspect` downloads it; with real servers."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.fault_proxy import FaultProxy, silence
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, WorkerHarness

from perago.model import CommitId

BAD = {"data/log.txt": b"temporary\n", "data/left.tmp": b"", "elsewhere/kept": b"untouched"}


def perago(harness: WorkerHarness, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from perago.cli.main import main; main()", *arguments]
    return subprocess.run(
        command, cwd=harness.folder, env=harness.environment(), capture_output=True, text=True, timeout=60, check=False
    )


def kept_branches(harness: WorkerHarness) -> list[str]:
    return [branch.name for branch in harness.site.lake.branches(harness.site.repository, "perago-failed-")]


def failed(harness: WorkerHarness, base: CommitId) -> dict[str, Any]:
    workflow = harness.grow(base, line="temporary")
    assert harness.ended(workflow) == "FAILED"
    return harness.tasks(workflow)[-1]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_attempt_can_be_downloaded_and_a_later_one_publishes(harness: WorkerHarness) -> None:
    harness.start(GROW, E2E_RETRIES="1", PERAGO_KEEP_FAILED="1h")
    base = harness.seed()
    workflow = harness.grow(base, line="temporary")
    assert harness.ended(workflow) == "FAILED"
    first, second = harness.tasks(workflow)
    assert first["reasonForIncompletion"] == (
        f"post guardrail forbid_glob('**/*.tmp') matched 1 file: left.tmp; kept for 1h: perago inspect {first['taskId']} [PG-330]"
    )
    assert len(kept_branches(harness)) == 2
    assert harness.head().id == base
    assert harness.staging_branches() == []

    shown = perago(harness, "inspect", first["taskId"], "looked/at", "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert files_in(harness.folder / "looked/at") == {"log.txt": b"temporary\n", "left.tmp": b""}
    assert (document["task_id"], document["input_commit"], document["prefix"]) == (first["taskId"], base, "data")
    assert document["reason"] == "post guardrail forbid_glob('**/*.tmp') matched 1 file: left.tmp"
    assert harness.site.content(document["commit"]) == BAD

    # The newest attempt of the only step that has one.
    for name, folder in ((str(workflow), "by-run"), (f"{workflow}/it", "by-step")):
        shown = perago(harness, "inspect", name, folder)
        assert shown.returncode == 0, shown.stderr
        assert f"task {second['taskId']}" in shown.stdout
        assert f"input     commit {base}" in shown.stdout
        assert "wrote 2 files" in shown.stdout
    again = perago(harness, "inspect", first["taskId"], "by-run")
    assert (again.returncode, again.stderr) == (
        1,
        "error: folder by-run is not empty; name a new or an empty folder [PG-100]\n",
    )

    # They are no rivals, and nothing of them reaches the branch.
    workflow = harness.grow(base, line="good")
    assert harness.ended(workflow) == "COMPLETED"
    assert harness.history(base) == [harness.head().id, base]
    assert harness.site.content(harness.head().id) == {"data/log.txt": b"good\n", "elsewhere/kept": b"untouched"}
    assert len(kept_branches(harness)) == 2
    nothing = perago(harness, "inspect", str(workflow))
    assert nothing.returncode == 1
    assert "nothing is kept of" in nothing.stderr
    assert "none of its attempts failed" in nothing.stderr
    listed = json.loads(perago(harness, "gc", harness.site.repository, "--delete", "--json").stdout)["branches"]
    assert {(one["task_id"], one["orphaned"]) for one in listed} == {(first["taskId"], None), (second["taskId"], None)}
    assert all(one["kept_until"] for one in listed)
    doctor = json.loads(perago(harness, "doctor", f"{harness.site.repository}/main", "--json").stdout)
    assert [one["level"] for one in doctor["findings"] if one["check"] == "kept"] == ["ok", "ok"]


def test_nothing_is_kept_unless_it_is_configured(harness: WorkerHarness) -> None:
    harness.start(GROW, E2E_RETRIES="0")
    task = failed(harness, harness.seed())
    assert "inspect" not in task["reasonForIncompletion"]
    assert kept_branches(harness) == []
    shown = perago(harness, "inspect", task["taskId"])
    assert shown.returncode == 1
    assert "if its worker has PERAGO_KEEP_FAILED set" in shown.stderr


def test_the_worker_deletes_it_when_its_time_is_over(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, E2E_RETRIES="0", PERAGO_KEEP_FAILED="3s")
    task = failed(harness, harness.seed())
    assert "kept for 3s" in task["reasonForIncompletion"]
    assert worker.until("deleted kept attempts whose time is over")["count"] == 1
    assert kept_branches(harness) == []


def test_the_command_deletes_it_when_its_time_is_over_and_no_worker_runs(harness: WorkerHarness) -> None:
    worker = harness.start(GROW, E2E_RETRIES="0", PERAGO_KEEP_FAILED="2s", PERAGO_WORKSPACE_GC_INTERVAL="1h")
    failed(harness, harness.seed())
    worker.kill()

    def is_deleted() -> bool:
        harness.collect_garbage()
        return kept_branches(harness) == []

    eventually(is_deleted, within=30, what="the end of its time")


@pytest.mark.parametrize("victim", ["worker", "executor"])
def test_a_kill_during_the_upload_leaves_what_gc_deletes(harness: WorkerHarness, victim: str) -> None:
    with FaultProxy(harness.stack.lakefs_url) as proxy:
        proxy.on(r"POST .*/branches/perago-failed-[^/]*/objects", silence(), times=100)
        worker = harness.start(GROW, E2E_RETRIES="0", PERAGO_KEEP_FAILED="3s", LAKECTL_SERVER_ENDPOINT_URL=proxy.url)
        base = harness.seed()
        workflow = harness.grow(base, line="temporary")
        eventually(lambda: proxy.requests(".*perago-failed-.*/objects"), within=30, what="the upload")
        assert len(kept_branches(harness)) == 1
        if victim == "worker":
            worker.kill()
        else:
            (executor,) = worker.executors()
            subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(executor)], check=True)
            assert harness.ended(workflow) == "FAILED"
            (task,) = harness.tasks(workflow)
            assert "inspect" not in task["reasonForIncompletion"]
            shown = perago(harness, "inspect", task["taskId"])
            assert shown.returncode == 1
            assert "is incomplete" in shown.stderr or "nothing is kept" in shown.stderr
            worker.kill()
    assert harness.head().id == base

    def nothing_left() -> bool:
        harness.collect_garbage()
        return not [branch.name for branch in harness.site.lake.branches(harness.site.repository, "perago-")]

    eventually(nothing_left, within=30, what="the end of its time")
