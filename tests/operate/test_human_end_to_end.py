"""An approval in a lane, end to end: submit, tasks, diff, checkout, edit, publish; a real worker runs the other steps."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import worker_harness
from tests.support.waiting import eventually
from tests.support.worker_harness import WorkerHarness

from perago.dev.stack import Endpoints
from perago.model import WorkflowId

MODULE = "tests.support.tasks.chain.reviewed"


def perago(workers: WorkerHarness, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from perago.cli.main import main; main()", *arguments],
        cwd=workers.folder,
        env=workers.environment(PERAGO_USER="alice"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def document(workers: WorkerHarness, *arguments: str) -> dict[str, Any]:
    done = perago(workers, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(180)
def test_what_lands_is_exactly_what_was_approved(stack: Endpoints, tmp_path: Path) -> None:
    with worker_harness.open_harness(stack, tmp_path / "harness") as workers:
        seed = workers.seed()
        workers.start(MODULE, PERAGO_SERVE_BUILT_IN_TASKS="true")
        run = WorkflowId(document(workers, "submit", MODULE, "-r", workers.site.repository)["run"])

        def waiting() -> dict[str, Any]:
            return next((one for one in document(workers, "tasks", "--limit", "1000")["tasks"] if one["run"] == run), {})

        task = eventually(waiting, within=60, what="the task that waits for a person")
        assert (task["pipeline"], task["step"], task["question"]) == (f"{workers.prefix}.reviewed", "review", {"lines": 1})
        # The draft is in a lane: the branch does not show it.
        assert workers.head().id == seed
        (change,) = document(workers, "diff", task["task"])["changes"]
        assert (change["path"], change["type"]) == ("inner/draft.txt", "added")
        folder = tmp_path / "draft"
        assert document(workers, "checkout", task["task"], str(folder))["prefix"] == "/inner/"
        assert (folder / "draft.txt").read_text().startswith("proposal")
        (folder / "draft.txt").write_text("approved\n")
        approved = document(workers, "publish", str(folder), "--result", '{"note": "reworded"}')["commit"]

        assert workers.ended(run) == "COMPLETED"
        assert workers.real.call("GET", f"/workflow/{run}")["output"]["note"] == "reworded"
        head = workers.head()
        assert head.parents == (seed,)
        assert workers.site.content(head.id)["inner/draft.txt"] == b"approved\n"
        # Exactly the approved content; the person's name is on the commit of the lane and in the output of the step.
        assert workers.site.lake.commit(workers.site.repository, approved).meta_range_id == head.meta_range_id
        done = workers.real.call("GET", f"/tasks/{task['task']}")
        assert (done["outputData"]["by"], done["outputData"]["workspace"]["ref"]) == ("alice", approved)
        # A second publish is refused and loses nothing.
        (folder / "draft.txt").write_text("too late\n")
        again = perago(workers, "publish", str(folder))
        assert again.returncode == 1
        assert f"task {task['task']} is over: it is COMPLETED by alice with commit {approved}" in again.stderr
        assert (folder / "draft.txt").read_text() == "too late\n"
        assert workers.staging_branches() == []
