"""Rivals: which of them are live, and which has precedence, with the same result on both sides."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perago.model import Attempt, BranchName, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import rivals, staging_names

OWN = Attempt(WorkflowId("w-own"), TaskId("t-own"), 0, "here", 1, 0, TaskType("x"), WorkerId("n"), 20, 1)
THEIRS = Attempt(WorkflowId("w"), TaskId("t"), 1, "there", 1, 0, TaskType("x"), WorkerId("n"), 10, 1)
SEEN = Snapshot(
    THEIRS.workflow_id,
    THEIRS.task_id,
    1,
    "IN_PROGRESS",
    WorkerId("n"),
    10,
    1,
    "RUNNING",
    {},
    workflow_created=5,
    workflow_name="flow",
)


def staging_name(attempt: Attempt) -> staging_names.StagingName:
    found = staging_names.parse(
        staging_names.staging_branch(attempt, staging_names.execution_id(0, bytes(8)), BranchName("main"))
    )
    assert found is not None
    return found


def rival(**changes: object) -> rivals.Rival:
    return rivals.Rival(staging_name(THEIRS), replace(SEEN, **changes))


def test_an_attempt_that_conductor_waits_for_is_live() -> None:
    assert rivals.is_live(rival(), OWN)
    assert rivals.is_live(rival(workflow_status="PAUSED"), OWN)
    assert rivals.is_live(rival(workflow_id=OWN.workflow_id), OWN)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "SCHEDULED"},
        {"status": "COMPLETED"},
        {"status": "FAILED"},
        {"status": "TIMED_OUT"},
        {"status": "CANCELED"},
        {"retry_count": 0},
        {"retry_count": 2},
        {"workflow_status": "TERMINATED"},
        {"workflow_status": "COMPLETED"},
        {"workflow_status": "FAILED"},
        {"workflow_status": "TIMED_OUT"},
        {"workflow_status": ""},
        {"task_id": OWN.task_id},
    ],
)
def test_any_other_is_not(changes: dict[str, object]) -> None:
    assert not rivals.is_live(rival(**changes), OWN)


def test_one_that_conductor_does_not_know_is_not_live_and_precedes_nothing() -> None:
    unknown = rivals.Rival(staging_name(THEIRS), None)
    assert not rivals.is_live(unknown, OWN)
    assert not rivals.precedes(unknown, SEEN)


SNAPSHOTS = st.builds(
    lambda created, started, task: replace(SEEN, workflow_created=created, start_time=started, task_id=TaskId(task)),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from("abc"),
)


@given(SNAPSHOTS, SNAPSHOTS)
def test_of_two_tasks_exactly_one_precedes_and_both_agree(one: Snapshot, other: Snapshot) -> None:
    assume(one.task_id != other.task_id)
    name = staging_name(THEIRS)
    assert rivals.precedes(rivals.Rival(name, one), other) != rivals.precedes(rivals.Rival(name, other), one)


@given(SNAPSHOTS, SNAPSHOTS, SNAPSHOTS)
def test_the_order_is_transitive(first: Snapshot, second: Snapshot, third: Snapshot) -> None:
    name = staging_name(THEIRS)
    one, two = rivals.Rival(name, first), rivals.Rival(name, second)
    if rivals.precedes(one, second) and rivals.precedes(two, third):
        assert rivals.precedes(one, third)


def test_nothing_precedes_itself() -> None:
    assert not rivals.precedes(rival(), SEEN)


def test_the_workflow_that_began_first_goes_first_then_the_task_then_the_id() -> None:
    ordered = [
        replace(SEEN, workflow_created=1, start_time=9, task_id=TaskId("z")),
        replace(SEEN, workflow_created=2, start_time=3, task_id=TaskId("z")),
        replace(SEEN, workflow_created=2, start_time=4, task_id=TaskId("a")),
        replace(SEEN, workflow_created=2, start_time=4, task_id=TaskId("b")),
    ]
    for earlier, later in itertools.combinations(ordered, 2):
        assert rivals.precedes(rivals.Rival(staging_name(THEIRS), earlier), later)


def test_a_rival_is_named_for_a_person() -> None:
    assert str(rival()) == "step there of workflow flow w"
    assert str(rivals.Rival(staging_name(THEIRS), None)) == "step there of workflow with the id w"
