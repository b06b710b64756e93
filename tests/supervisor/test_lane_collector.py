"""The branches of lanes are deleted when their workflow is over."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from tests.support.attempts import memory_scene
from tests.support.lanes import LaneScene, lanes_in
from tests.support.waiting import eventually

from perago.builtin import names
from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable
from perago.in_memory.conductor import FakeConductor, WorkflowStep
from perago.model import TaskType, WorkerId
from perago.process.backoff import Backoff
from perago.supervisor.context import BlockingCalls
from perago.supervisor.lane_collector import LaneCollector, LaneOwner, owner_of

QUICK = Backoff(first=0.01, longest=0.05)


def polled_on(lanes: LaneScene, task_type: str, workspace: object) -> Polled:
    step = WorkflowStep(TaskType(task_type), "it", {"workspace": workspace, "params": {}})
    lanes.scene.conductor.start([step])
    found = lanes.scene.conductor.poll(TaskType(task_type), WorkerId("w"), wait_seconds=0)
    assert found is not None
    return found


def test_a_fork_and_every_step_in_a_lane_are_remembered_under_the_workflow_of_the_lanes() -> None:
    lanes = LaneScene(memory_scene())
    fork = lanes.begin_fork(["one"])
    owner = LaneOwner(lanes.scene.repository, fork.attempt.workflow_id)
    assert owner_of(fork) == owner
    in_lane = polled_on(lanes, "write", lanes_in(lanes.run(fork))["one"])
    assert in_lane.attempt.workflow_id != fork.attempt.workflow_id
    assert owner_of(in_lane) == owner
    join = polled_on(lanes, names.JOIN, lanes.scene.target().as_json())
    assert owner_of(join) == LaneOwner(lanes.scene.repository, join.attempt.workflow_id)


@pytest.mark.parametrize("workspace", [None, "text", {}, {"repository": 1, "branch": "main"}])
def test_other_tasks_are_not(workspace: object) -> None:
    lanes = LaneScene(memory_scene())
    assert owner_of(polled_on(lanes, "write", workspace)) is None
    assert owner_of(polled_on(lanes, "write", lanes.scene.target().as_json())) is None


def collect(lanes: LaneScene, polled: Polled, act: Callable[[], None], conductor: Any = None) -> list[str]:
    """Run a collector, `act` once it has asked a few times, and wait for the end of the branches; what it logged."""
    logged: list[str] = []
    asked: list[object] = []

    class Counting:
        def workflow_status(self, workflow_id: Any) -> str:
            asked.append(workflow_id)
            return (conductor or lanes.scene.conductor).workflow_status(workflow_id)

    async def work() -> None:
        with ThreadPoolExecutor(2) as pool:
            calls = BlockingCalls(cast("FakeConductor", Counting()), pool)
            collector = LaneCollector(calls, lanes.scene.lake, lambda text, **_fields: logged.append(text), QUICK)
            running = asyncio.create_task(collector.run())
            collector.watch(polled)
            collector.watch(polled)
            await asyncio.to_thread(eventually, lambda: len(asked) > 2, within=20, what="three questions")
            assert lanes.lane_branches(), "the workflow runs"
            act()
            await asyncio.to_thread(eventually, lambda: logged, within=20, what="the end of the branches")
            assert not lanes.lane_branches()
            running.cancel()

    asyncio.run(work())
    return logged


def test_the_branches_of_a_workflow_that_ends_are_deleted() -> None:
    lanes = LaneScene(memory_scene())
    polled = lanes.begin_fork(["one", "two"])
    lanes.run(polled)
    logged = collect(lanes, polled, lambda: lanes.scene.conductor.terminate(polled.attempt.workflow_id))
    assert logged == ["deleted the branches of lanes"]


def test_the_branches_of_a_workflow_that_conductor_does_not_know_are_deleted() -> None:
    lanes = LaneScene(memory_scene())
    polled = lanes.begin_fork(["one"])
    lanes.run(polled)
    assert collect(lanes, polled, lanes.scene.conductor._workflows.clear)


def test_an_outage_of_conductor_deletes_nothing() -> None:
    lanes = LaneScene(memory_scene())
    polled = lanes.begin_fork(["one"])
    lanes.run(polled)

    class Failing:
        """Does not answer until the workflow is over."""

        def workflow_status(self, workflow_id: Any) -> str:
            status = lanes.scene.conductor.workflow_status(workflow_id)
            if status == "RUNNING":
                raise ConductorUnavailable("Conductor cannot be reached")
            return status

    failing = cast("FakeConductor", Failing())
    assert collect(lanes, polled, lambda: lanes.scene.conductor.terminate(polled.attempt.workflow_id), failing)
