"""Lanes on real servers: a worker, hand-written workflows, and every way in which a run can end."""

from collections.abc import Iterator

import pytest
from tests.support import publication
from tests.support.lane_workflows import Json, built_in, forked, lane, lane_branches, two_lanes
from tests.support.publication import PublicationHarness, TargetBranch, sub_workflow
from tests.support.waiting import eventually

from perago.builtin import lane_branches as branches
from perago.dev.stack import Endpoints
from perago.model import WorkflowId
from perago.protocol import lane_names

pytestmark = pytest.mark.xdist_group("built-in tasks")
"""Conductor hands the built-in tasks to any worker that serves them: the workers of two tests must not run side by side."""


@pytest.fixture(scope="module")
def harness(stack: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicationHarness]:
    with publication.open_harness(stack, tmp_path_factory.mktemp("lanes"), PERAGO_SERVE_BUILT_IN_TASKS="true") as made:
        yield made


@pytest.fixture
def branch(harness: PublicationHarness) -> TargetBranch:
    return harness.branch()


def until_no_lane_is_left(harness: PublicationHarness, workflow: WorkflowId) -> None:
    eventually(lambda: not lane_branches(harness, workflow), within=30, what="the end of the branches of lanes")


def test_lanes_become_one_commit(harness: PublicationHarness, branch: TargetBranch) -> None:
    steps = forked(
        {
            "one": [branch.step("one", workspace=lane("one"))],
            "two": [
                branch.step("two", workspace=lane("two")),
                branch.step("more", workspace="${two.output.workspace}"),
            ],
            "idle": [branch.step("idle", None, workspace=lane("idle"))],
        }
    )
    workflow = branch.start(*steps, branch.step("after", workspace="${end.output.workspace}"))
    after = harness.completed(workflow, "after")
    branch.shows(after, harness.accepted(workflow, "end"), files={"one", "two", "more", "after"})
    assert lane_branches(harness, workflow) == [], "the join has deleted them"


def test_lanes_of_a_list(harness: PublicationHarness, branch: TargetBranch) -> None:
    """Lanes of items are numbered."""
    names = ("zero", "first", "second")
    lanes = [branch.step(f"step_{number}", name, workspace=lane(str(number))) for number, name in enumerate(names)]
    fork, join = publication.fork(*lanes)
    begin = built_in("perago.fork", "begin", publication.INPUT, {"count_of": ["any", {"item": 1}, 2]})
    left = {str(number): f"${{step_{number}.output.workspace}}" for number in range(3)}
    end = built_in("perago.join", "end", publication.INPUT, {"lanes": left})
    workflow = branch.start(begin, fork, join, end)
    branch.shows(harness.completed(workflow, "end"), files=set(names))
    (done,) = harness.attempts(workflow, "end")
    assert done["outputData"]["result"] == {}


def failing(branch: TargetBranch, *later: str) -> list[Json]:
    """Lane one succeeds, lane two fails at first."""
    lanes = {name: [branch.step(name, workspace=lane(name), retries=0)] for name in ("one", "two")}
    lanes["two"] = [branch.step("two", "no/such/directory", *later, workspace=lane("two"), retries=0)]
    return forked(lanes)


def test_a_lane_that_fails_leaves_the_target_alone(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(*failing(branch))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    until_no_lane_is_left(harness, workflow)
    branch.shows(files=set())


def test_a_failed_run_is_retried_with_its_lanes_restored(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(*failing(branch, "two"))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    until_no_lane_is_left(harness, workflow)
    site, real = harness.worker_harness.site, harness.worker_harness.real
    restored = branches.restore_lanes(site.lake, real.call("GET", f"/workflow/{workflow}?includeTasks=true"))
    assert len(restored) == 2
    real.call("POST", f"/workflow/{workflow}/retry")
    assert branches.restore_lanes(site.lake, real.call("GET", f"/workflow/{workflow}?includeTasks=true")) == []
    end = harness.completed(workflow, "end")
    branch.shows(end, files={"one", "two"})
    assert lane_branches(harness, workflow) == []


def test_without_its_lane_a_retried_step_says_what_to_do(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(*failing(branch, "two"))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    until_no_lane_is_left(harness, workflow)
    harness.worker_harness.real.call("POST", f"/workflow/{workflow}/retry")
    eventually(lambda: len(harness.attempts(workflow, "two")) > 1, what="the retried step")
    assert harness.worker_harness.ended(workflow) == "FAILED"
    assert "`perago retry` restores them" in harness.attempts(workflow, "two")[-1]["reasonForIncompletion"]


def test_a_run_that_is_terminated_amid_its_lanes(harness: PublicationHarness, branch: TargetBranch) -> None:
    gate = harness.gate()
    workflow = branch.start(*two_lanes(branch, gate=gate))
    gate.reached()
    assert len(lane_branches(harness, workflow)) == 2
    harness.worker_harness.real.terminate(workflow)
    until_no_lane_is_left(harness, workflow)
    gate.open()
    branch.shows(files=set())


def test_a_rerun_from_the_fork_makes_new_lanes(harness: PublicationHarness, branch: TargetBranch) -> None:
    workflow = branch.start(*failing(branch, "two"))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    (begin,) = harness.attempts(workflow, "begin")
    before = begin["outputData"]["result"]["lanes"]
    harness.worker_harness.real.call("POST", f"/workflow/{workflow}/rerun", {"reRunFromTaskId": begin["taskId"]})
    branch.shows(harness.completed(workflow, "end"), files={"one", "two"})
    (again,) = harness.attempts(workflow, "begin")
    assert again["outputData"]["result"]["lanes"] != before
    assert lane_branches(harness, workflow) == []


def test_lanes_that_disagree_are_refused(harness: PublicationHarness, branch: TargetBranch) -> None:
    lanes = {name: [branch.step(name, "same", workspace=lane(name))] for name in ("one", "two")}
    # The content names the run.
    branch.runs[-1].write_text("0\n")
    workflow = branch.start(*forked(lanes))
    assert harness.worker_harness.ended(workflow) == "FAILED"
    (end,) = harness.attempts(workflow, "end")
    assert end["status"] == "FAILED_WITH_TERMINAL_ERROR"
    assert end["reasonForIncompletion"].startswith("lanes one and two changed 1 object differently: 'data/same';")
    assert end["reasonForIncompletion"].endswith("[PG-240]")
    until_no_lane_is_left(harness, workflow)
    branch.shows(files=set())


def test_two_runs_on_one_branch_at_once(harness: PublicationHarness, branch: TargetBranch) -> None:
    gate = harness.gate()
    runs = [branch.start(*forked({name: [branch.step(name, workspace=lane(name), gate=gate)]})) for name in ("one", "two")]
    eventually(lambda: all(ran.exists() for ran in branch.runs), what="both bodies")
    gate.open()
    ended = [harness.worker_harness.ended(workflow, within=120) for workflow in runs]
    assert sorted(ended) == ["COMPLETED", "FAILED"], ended
    won = runs[ended.index("COMPLETED")]
    branch.shows(harness.accepted(won, "end"), files={("one", "two")[ended.index("COMPLETED")]})
    for workflow in runs:
        until_no_lane_is_left(harness, workflow)


def test_forks_inside_lanes_and_loops(harness: PublicationHarness, branch: TargetBranch) -> None:
    """The inner join publishes to the outer lane."""
    inner = sub_workflow(
        "inner", forked({name: [branch.step(name, workspace=lane(name))] for name in ("deep1", "deep2")}), lane("one")
    )
    outer = forked({"one": [inner], "two": [branch.step("two", workspace=lane("two"))]})
    workflow = branch.start(*outer)
    branch.shows(harness.completed(workflow, "end"), files={"deep1", "deep2", "two"})
    site = harness.worker_harness.site
    assert list(site.lake.branches(site.repository, lane_names.PREFIX)) == []
