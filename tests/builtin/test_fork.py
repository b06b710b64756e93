"""`perago.fork`: branches of lanes, and what is left of earlier attempts."""

from typing import Any

import pytest
from tests.support.attempts import once, raising
from tests.support.lanes import LaneScene, lanes_in

from perago.attempt import cancellation
from perago.builtin import lane_branches, names
from perago.errors import LakeUnavailable
from perago.model import BranchName
from perago.protocol import lane_names


def test_each_lane_gets_a_hidden_branch_at_the_input(lanes: LaneScene) -> None:
    polled = lanes.begin_fork(["audio", "video"])
    outcome = lanes.run(polled)
    made = lanes_in(outcome)
    assert outcome.output is not None
    assert outcome.output["workspace"] == lanes.scene.target().as_json(), "the workspace passes unchanged"
    assert list(made) == ["audio", "video"]
    for name, lane in made.items():
        branch = BranchName(lane["branch"])
        assert lane == {**lanes.scene.target().as_json(), "branch": branch}
        assert lanes.scene.lake.branch(lanes.scene.repository, branch) == lanes.scene.a
        parsed = lane_names.parse(branch)
        assert parsed is not None
        assert (parsed.lane, parsed.workflow_id) == (name, polled.attempt.workflow_id)
    assert lanes.scene.head().id == lanes.scene.a


def test_lanes_of_items_are_numbered(memory: LaneScene) -> None:
    outcome = memory.run(memory.start(names.FORK, {"count_of": [{"day": 1}, {"day": 2}, None]}))
    assert list(lanes_in(outcome)) == ["0", "1", "2"]


def test_no_lane_is_a_fork_too(memory: LaneScene) -> None:
    assert lanes_in(memory.run(memory.start(names.FORK, {"count_of": []}))) == {}


def test_many_lanes(lanes: LaneScene) -> None:
    count = 1000 if lanes.scene.repository == "repo" else 100
    made = lanes_in(lanes.run(lanes.start(names.FORK, {"count_of": [0] * count})))
    assert len({lane["branch"] for lane in made.values()}) == count
    assert len(lanes.lane_branches()) == count


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "give either lanes or count_of"),
        ({"lanes": ["a"], "count_of": []}, "give either lanes or count_of"),
        ({"lanes": ["a", "b", "a"]}, "'a' is there twice"),
        ({"count_of": [0] * 1001}, "at most 1000 items"),
        ({"lanes": [str(number) for number in range(1001)]}, "at most 1000 items"),
    ],
)
def test_what_cannot_be_forked_is_refused(memory: LaneScene, params: dict[str, Any], text: str) -> None:
    outcome = memory.run(memory.start(names.FORK, params))
    assert outcome.error == "TaskInputError"
    assert text in (outcome.reason or "")


def test_an_input_that_no_join_could_publish_on_is_refused_early(lanes: LaneScene) -> None:
    lanes.scene.publish({"later": b"1"})
    lanes.scene.publish({"later": b"2"})
    outcome = lanes.run(lanes.begin_fork(["one"]))
    assert outcome.error == "PublishFenceError"
    assert lanes.lane_branches() == []


# attempts


def test_a_retry_deletes_the_lanes_of_earlier_attempts(lanes: LaneScene) -> None:
    first = lanes.begin_fork(["one", "two"])
    lanes_in(lanes.run(first))
    second = lanes_in(lanes.run(lanes.retry(first)))
    assert lanes.lane_branches() == sorted(lane["branch"] for lane in second.values())


def test_a_rerun_deletes_the_lanes_of_the_execution_before_it(memory: LaneScene) -> None:
    polled = memory.begin_fork(["one"])
    before = lanes_in(memory.run(polled))
    after = lanes_in(memory.run(polled))
    assert before != after
    assert memory.lane_branches() == [after["one"]["branch"]]


def test_an_old_attempt_never_deletes_the_lanes_of_a_newer_one(memory: LaneScene) -> None:
    """It was paused after the attempt fence: what it then lists and deletes must not be of its successor."""
    old = memory.begin_fork(["one"])
    tap = memory.scene.tap
    newer: list[dict[str, dict[str, str]]] = []
    tap.before["create_branch"] = once(lambda: newer.append(lanes_in(memory.run(memory.retry(old)))))
    outcome = memory.run(old, tap)
    assert outcome.error == "StaleAttemptError"
    assert memory.lane_branches() == [newer[0]["one"]["branch"]], "and it deletes its own"


def test_an_old_execution_of_the_same_attempt_does_not_delete_the_lanes_of_its_rerun(memory: LaneScene) -> None:
    """The rerun begins after the listing: the old execution's fence does not let it go on."""
    polled = memory.begin_fork(["one"])
    tap = memory.scene.tap
    rerun: list[dict[str, dict[str, str]]] = []

    def start_over() -> None:
        memory.scene.conductor.rerun(polled.attempt.workflow_id, polled.attempt.task_id)
        rerun.append(lanes_in(memory.run(memory.poll(names.FORK))))

    tap.after["branches"] = once(start_over)
    assert memory.run(polled, tap).error == "StaleAttemptError"
    assert memory.lane_branches() == [rerun[0]["one"]["branch"]]


def test_a_name_of_a_higher_retry_count_is_never_deleted(memory: LaneScene) -> None:
    first = memory.begin_fork(["one"])
    memory.run(first)
    second = memory.retry(first)
    (branch,) = memory.lane_branches()
    name = lane_names.parse(branch)
    assert name is not None
    execution = memory.execution(second).id
    assert lane_names.is_of_an_earlier_execution(name, second.attempt, execution)
    own = lane_names.parse(lane_names.lane_branch(second.attempt, execution, "one"))
    assert own is not None
    assert not lane_names.is_of_an_earlier_execution(own, first.attempt, execution)
    assert not lane_names.is_of_an_earlier_execution(own, second.attempt, execution)


def test_a_failure_half_way_deletes_what_was_made(memory: LaneScene) -> None:
    tap = memory.scene.tap
    made = 0

    def second_fails() -> None:
        nonlocal made
        made += 1
        if made == 5:
            raise LakeUnavailable("lakeFS cannot be reached")

    tap.after["create_branch"] = second_fails
    outcome = memory.run(memory.begin_fork([str(number) for number in range(10)]), tap)
    assert outcome.error == "LakeUnavailable"
    assert memory.lane_branches() == []


def test_a_fork_that_is_no_longer_wanted_makes_nothing(memory: LaneScene) -> None:
    polled = memory.begin_fork(["one"])
    tap = memory.scene.tap
    tap.after["branches"] = once(lambda: cancellation.set_reason("the workflow was terminated"))
    try:
        assert memory.run(polled, tap).error == "AttemptCancelled"
    finally:
        cancellation.set_reason(None)
    assert memory.lane_branches() == []


def test_an_error_of_a_deletion_ends_the_attempt(memory: LaneScene) -> None:
    first = memory.begin_fork(["one"])
    memory.run(first)
    tap = memory.scene.tap
    tap.before["delete_branch"] = raising(LakeUnavailable("lakeFS cannot be reached"))
    assert memory.run(memory.retry(first), tap).error == "LakeUnavailable"


# afterwards


def test_the_lanes_of_one_workflow_are_deleted(lanes: LaneScene) -> None:
    polled = lanes.begin_fork(["one", "two"])
    lanes.run(polled)
    kept = lanes_in(lanes.run(lanes.begin_fork(["other"])))
    repository = lanes.scene.repository
    assert lane_branches.delete_lanes(lanes.scene.lake, repository, polled.attempt.workflow_id) == 2
    assert lanes.lane_branches() == [kept["other"]["branch"]]
    assert lane_branches.delete_lanes(lanes.scene.lake, repository, polled.attempt.workflow_id) == 0


def _task(task_type: str, status: str, end: int, **fields: Any) -> dict[str, Any]:
    return {"taskType": task_type, "status": status, "endTime": end, "seq": end, **fields}


def test_lanes_are_restored_at_what_conductor_accepted(lanes: LaneScene) -> None:
    polled = lanes.begin_fork(["one", "two", "three"])
    made = lanes_in(lanes.run(polled))
    first = lanes.edit(made["one"], {"b": b"1"})
    second = lanes.edit(first, {"b": b"2"})
    lost = lanes.edit(made["two"], {"c": b"1"})
    tasks = [
        _task("write", "COMPLETED", 3, outputData={"workspace": second}),
        _task(names.FORK, "COMPLETED", 1, outputData={"workspace": lanes.scene.target().as_json(), "result": {"lanes": made}}),
        _task("write", "COMPLETED", 2, outputData={"workspace": first}),
        _task("write", "FAILED", 4, outputData={"workspace": lost}),
        _task("report", "COMPLETED", 5, outputData=None),
    ]
    repository = lanes.scene.repository
    assert lane_branches.delete_lanes(lanes.scene.lake, repository, polled.attempt.workflow_id) == 3
    assert lane_branches.restore_lanes(lanes.scene.lake, {"tasks": tasks}) == [lane["branch"] for lane in made.values()]
    stands = [lanes.scene.lake.branch(repository, BranchName(lane["branch"])) for lane in made.values()]
    assert stands == [second["ref"], lanes.scene.a, lanes.scene.a]
    assert lane_branches.restore_lanes(lanes.scene.lake, {"tasks": tasks}) == [], "those that exist are left alone"


def test_lanes_that_were_joined_are_not_restored(memory: LaneScene) -> None:
    polled = memory.begin_fork(["one"])
    made = lanes_in(memory.run(polled))
    tasks = [
        _task(names.FORK, "COMPLETED", 1, outputData={"result": {"lanes": made}}),
        _task(names.JOIN, "COMPLETED", 2, inputData={"params": {"lanes": made}}),
    ]
    memory.scene.lake.delete_branch(memory.scene.repository, BranchName(made["one"]["branch"]))
    assert lane_branches.restore_lanes(memory.scene.lake, {"tasks": tasks}) == []


def test_the_error_for_a_lane_that_is_gone_says_how_to_get_it_back(memory: LaneScene) -> None:
    made = memory.fork("one")
    lost = {**made["one"], "branch": made["one"]["branch"]}
    memory.scene.lake.delete_branch(memory.scene.repository, BranchName(lost["branch"]))
    memory.scene.branch = BranchName(lost["branch"])
    outcome = memory.run(memory.start(names.FORK, {"lanes": ["inner"]}))
    assert outcome.error == "WorkspaceError"
    assert "`perago retry` restores them" in (outcome.reason or "")
