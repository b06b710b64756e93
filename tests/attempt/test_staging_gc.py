"""Which staging branches may be deleted, and `perago gc` on real servers."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.attempts import AttemptScene, memory_scene, once, raising

from perago.attempt import branch_gc, staging_gc
from perago.attempt.staging_gc import TaskNotAsked, TaskNotFound, judge
from perago.conductor.port import Polled
from perago.dev.stack import Endpoints
from perago.errors import LakeUnavailable
from perago.in_memory.lake import MAIN
from perago.model import BranchName, ExecutionId, Snapshot, TaskId, WorkerId, WorkflowId
from perago.protocol import staging_names

NOW = 1_763_251_200.0
DAY = 86400.0
CURRENT = Snapshot(WorkflowId("w"), TaskId("t"), 1, "IN_PROGRESS", WorkerId("n"), 1, 1, "RUNNING", {})


def staged(scene: AttemptScene, polled: Polled, made_at: float) -> BranchName:
    branch = staging_names.staging_branch(polled.attempt, staging_names.execution_id(made_at, os.urandom(8)), MAIN)
    scene.lake.create_branch(scene.repository, branch, scene.a)
    return branch


def name(scene: AttemptScene, made_at: float) -> staging_names.StagingName:
    attempt = replace(scene.start().attempt, workflow_id=WorkflowId("w"), task_id=TaskId("t"), retry_count=1)
    found = staging_names.parse(staging_names.staging_branch(attempt, staging_names.execution_id(made_at, bytes(8)), MAIN))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("answer", "age", "why"),
    [
        (CURRENT, 0, None),
        (CURRENT, DAY, None),
        (CURRENT, DAY + 1, "it is older than the bound"),
        (replace(CURRENT, status="SCHEDULED"), 0, None),
        (replace(CURRENT, workflow_status="PAUSED"), 0, None),
        (replace(CURRENT, status="TIMED_OUT"), 0, "its attempt is over: TIMED_OUT"),
        (replace(CURRENT, status="COMPLETED"), 0, "its attempt is over: COMPLETED"),
        (replace(CURRENT, workflow_status="TERMINATED"), 0, "its workflow is over: TERMINATED"),
        (replace(CURRENT, retry_count=2), 0, "a later attempt has taken its place"),
        (TaskNotFound(), 0, "Conductor no longer knows its task"),
        (TaskNotAsked(), 0, None),
        (TaskNotAsked(), DAY + 1, "it is older than the bound"),
    ],
)
def test_a_staging_branch_is_an_orphan_by_its_attempt_or_its_age(
    answer: staging_gc.TaskAnswer, age: float, why: str | None
) -> None:
    finding = judge(name(memory_scene(), NOW - age), answer, now=NOW, older_than=DAY)
    assert finding.orphaned == why
    assert finding.age_seconds == age


def test_a_clock_that_runs_ahead_makes_nothing_old() -> None:
    assert judge(name(memory_scene(), NOW + 500), TaskNotAsked(), now=NOW, older_than=0).age_seconds == 0


def test_a_name_without_a_time_is_never_too_old() -> None:
    scene = memory_scene()
    found = staging_names.parse(staging_names.staging_branch(scene.start().attempt, ExecutionId("e"), MAIN))
    assert found is not None
    assert judge(found, TaskNotAsked(), now=NOW, older_than=0).orphaned is None


def test_orphans_are_found_and_deleted_and_nothing_else() -> None:
    scene = memory_scene()
    over, running = scene.start(), scene.start()
    gone = staged(scene, over, NOW)
    scene.conductor.terminate(over.attempt.workflow_id)
    kept = staged(scene, running, NOW)
    foreign = BranchName("perago-staging-by-hand")
    scene.lake.create_branch(scene.repository, foreign, scene.a)
    found = staging_gc.find(scene.lake, scene.conductor, scene.repository, now=NOW, older_than=DAY)
    assert {finding.branch: finding.orphaned for finding in found} == {gone: "its attempt is over: CANCELED", kept: None}
    assert gone in scene.staging_branches()
    assert [f.branch for f in branch_gc.delete(scene.lake, scene.repository, found) if f.is_deleted] == [gone]
    assert sorted(scene.staging_branches()) == sorted([kept, foreign])


def test_a_branch_that_cannot_be_deleted_is_reported_and_the_others_are_deleted() -> None:
    scene = memory_scene()
    branches = [staged(scene, scene.start(), NOW - 2 * DAY) for _ in range(2)]
    tap = scene.tap
    tap.before["delete_branch"] = once(raising(LakeUnavailable("lakeFS cannot be reached")))
    found = staging_gc.find(scene.lake, None, scene.repository, now=NOW, older_than=DAY)
    left = list(branch_gc.delete(tap, scene.repository, found))  # pyright: ignore[reportArgumentType]
    assert [f.failure for f in left] == ["lakeFS cannot be reached", None]
    assert len(scene.staging_branches()) == 1
    assert {f.branch for f in left} == set(branches)


def perago(stack: Endpoints, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **stack.environment()}
    command = [sys.executable, "-c", "from perago.cli.main import main; main()", "gc", *arguments]
    return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_lists_first_and_deletes_when_told(real_scene: AttemptScene, stack: Endpoints, tmp_path: Path) -> None:
    """The real Conductor does not know these attempts, so all of them count as ended."""
    branch = staged(real_scene, real_scene.start(), time.time())
    listed = perago(stack, tmp_path, real_scene.repository)
    assert listed.returncode == 0, listed.stderr
    assert f"orphan: {branch} (Conductor no longer knows its task)" in listed.stdout
    assert "1 staging branches, 1 to delete with --delete" in listed.stdout
    assert real_scene.staging_branches() == [branch]
    deleted = perago(stack, tmp_path, real_scene.repository, "--delete", "--json")
    document = json.loads(deleted.stdout)
    assert [(one["branch"], one["deleted"]) for one in document["branches"]] == [(branch, True)]
    assert document["conductor_asked"] is True
    assert real_scene.staging_branches() == []


def test_the_command_says_what_it_needs(stack: Endpoints, tmp_path: Path) -> None:
    missing = perago(stack, tmp_path, "no-such-repository")
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: ")
    assert "no-such-repository" in missing.stderr
    assert "Traceback" not in missing.stderr
    assert perago(stack, tmp_path, "x", "--older-than", "yesterday").returncode == 2
