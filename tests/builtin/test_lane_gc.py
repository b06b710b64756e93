"""Which branches of lanes `perago gc` deletes."""

import secrets

import pytest
from tests.support.lanes import LaneScene

from perago.attempt import branch_gc
from perago.builtin import lane_gc
from perago.errors import LakeUnavailable
from perago.protocol import lane_names, staging_names

NOW = 1_763_251_200.0
DAY = 86400.0


def find(lanes: LaneScene, *, asked: bool = True) -> list[lane_gc.LaneFinding]:
    conductor = lanes.scene.conductor if asked else None
    return lane_gc.find(lanes.scene.lake, conductor, lanes.scene.repository, now=NOW, older_than=DAY)


def test_branches_of_workflows_that_are_over_are_deleted(lanes: LaneScene) -> None:
    over, running, unknown = (lanes.begin_fork(["one"]) for _ in range(3))
    for polled in (over, running, unknown):
        lanes.run(polled)
    lanes.scene.conductor.terminate(over.attempt.workflow_id)
    del lanes.scene.conductor._workflows[unknown.attempt.workflow_id]
    found = {finding.name.workflow_id: finding.orphaned for finding in find(lanes)}
    assert found == {
        over.attempt.workflow_id: "its workflow is over: TERMINATED",
        running.attempt.workflow_id: None,
        unknown.attempt.workflow_id: "Conductor no longer knows its workflow",
    }
    deleted = [one.branch for one in branch_gc.delete(lanes.scene.lake, lanes.scene.repository, find(lanes)) if one.is_deleted]
    assert len(deleted) == 2
    (left,) = lanes.lane_branches()
    name = lane_names.parse(left)
    assert name is not None
    assert name.workflow_id == running.attempt.workflow_id


@pytest.mark.parametrize(("age", "orphaned"), [(DAY, None), (DAY + 1, "it is older than the bound")])
def test_without_conductor_the_age_counts(memory: LaneScene, age: float, orphaned: str | None) -> None:
    attempt = memory.begin_fork(["one"]).attempt
    made = staging_names.execution_id(NOW - age, secrets.token_bytes(8))
    memory.scene.lake.create_branch(memory.scene.repository, lane_names.scratch_branch(attempt, made, 0), memory.scene.a)
    (finding,) = find(memory, asked=False)
    assert (finding.orphaned, finding.age_seconds) == (orphaned, age)
    (asked,) = find(memory)
    assert asked.orphaned is None, "a lane may wait for days"


def test_a_deletion_that_fails_is_reported(memory: LaneScene) -> None:
    polled = memory.begin_fork(["one"])
    memory.run(polled)
    memory.scene.conductor.terminate(polled.attempt.workflow_id)
    tap = memory.scene.tap

    def fail() -> None:
        raise LakeUnavailable("lakeFS cannot be reached")

    tap.before["delete_branch"] = fail
    (finding,) = branch_gc.delete(tap, memory.scene.repository, find(memory))  # pyright: ignore[reportArgumentType]  a tap is any lake
    assert (finding.is_deleted, finding.failure) == (False, "lakeFS cannot be reached")
