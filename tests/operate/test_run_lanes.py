"""The branches of lanes when a run is cancelled and when it is retried."""

import secrets
import time

import pytest
from tests.support.conductor_sites import take
from tests.support.operator import MAIN, OperatorHarness

from perago.builtin import names
from perago.errors import TaskStatus
from perago.model import BranchName, Outcome, WorkflowId, WorkspaceRef
from perago.protocol import lane_names, staging_names


def run_with_a_lane(harness: OperatorHarness) -> tuple[WorkflowId, BranchName]:
    """Its fork has made one lane, in which a step waits for a worker. The harness's own task type counts as the fork."""
    seed = harness.by_hand("in/x")
    workspace = WorkspaceRef(harness.repository, MAIN, seed).as_json()
    steps = [
        {"name": kind, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": {"params": {}}}
        for reference, kind in (("fork", harness.task_type), ("inside", harness.real.task_type()))
    ]
    run = harness.real.start_workflow(steps, {"workspace": workspace})
    polled = take(harness.real.conductor, harness.task_type)
    execution = staging_names.execution_id(time.time(), secrets.token_bytes(8))
    branch = lane_names.lane_branch(polled.attempt, execution, "audio")
    harness.server.lake.create_branch(harness.repository, branch, seed)
    lanes = {"audio": WorkspaceRef(harness.repository, branch, seed).as_json()}
    output = {"workspace": workspace, "result": {"lanes": lanes}}
    harness.real.conductor.report(polled.attempt, Outcome(TaskStatus.COMPLETED, output), timeout=20)
    return run, branch


def lane_branches(harness: OperatorHarness) -> list[str]:
    return [branch.name for branch in harness.server.lake.branches(harness.repository, lane_names.PREFIX)]


def test_cancel_deletes_the_lanes_and_retry_restores_them(harness: OperatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "FORK", harness.task_type)
    run, branch = run_with_a_lane(harness)
    said = harness.perago("cancel", run)
    assert (said.code, said.out) == (0, f"run {run} is cancelled; 1 lane branch was deleted\n")
    assert lane_branches(harness) == []
    said = harness.perago("retry", run)
    assert (said.code, said.out) == (0, f"run {run} goes on; perago watch {run} shows it\n")
    assert lane_branches(harness) == [branch]
    assert harness.server.lake.branch(harness.repository, branch) == harness.head().id
    newest, *_ = harness.perago("log", harness.target, "--json").json["publications"]
    assert newest["commit"] == harness.head().id


def test_a_run_without_lanes_needs_no_lakefs(harness: OperatorHarness) -> None:
    run = harness.real.start(harness.task_type)
    harness.environment |= dict.fromkeys(
        ("LAKECTL_SERVER_ENDPOINT_URL", "LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"), ""
    )
    said = harness.perago("cancel", run)
    assert (said.code, said.out) == (0, f"run {run} is cancelled\n")
    assert harness.perago("retry", run).code == 0
