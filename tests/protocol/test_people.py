"""Staging branches of people: names, siblings of one human step, and when the branch of a killed publication stops counting."""

from dataclasses import replace

import pytest

from perago.attempt.person import Person
from perago.model import Attempt, BranchName, ExecutionId, Snapshot, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import fence, rivals, staging_names

MAIN = BranchName("main")
NOW = 1_800_000_000
HUMAN = Attempt(WorkflowId("w"), TaskId("t"), 0, "review", 1, 0, TaskType("human"), WorkerId(""), NOW * 1000, 0)
SEEN = Snapshot(WorkflowId("w"), TaskId("t"), 0, "IN_PROGRESS", None, NOW * 1000, 0, "RUNNING", {}, workflow_created=1)


def execution(second: int, key: str = "00" * 8, mark: str = staging_names.PERSON) -> ExecutionId:
    return ExecutionId(staging_names.execution_id(NOW + second, bytes.fromhex(key)) + mark)


def rival(of: Attempt, made: ExecutionId, seen: Snapshot | None = SEEN) -> rivals.Rival:
    name = staging_names.parse(staging_names.staging_branch(of, made, MAIN))
    assert name is not None
    return rivals.Rival(name, seen)


@pytest.mark.parametrize(
    ("mark", "person", "restores"), [("", False, False), ("h", True, False), ("hr", True, True), ("r", False, True)]
)
def test_the_name_tells_whether_a_person_made_it_and_when(mark: str, person: bool, restores: bool) -> None:
    name = rival(HUMAN, execution(5, mark=mark)).name
    assert (name.is_of_person, name.restores, name.made_at) == (person, restores, NOW + 5)


def test_the_fence_passes_for_a_task_that_no_worker_polled() -> None:
    fence.assert_current_attempt_snapshot(HUMAN, SEEN, 1)
    assert not fence.is_current(HUMAN, replace(SEEN, worker_id=WorkerId("someone")))
    assert not fence.is_current(HUMAN, replace(SEEN, start_time=1))


def test_siblings_are_executions_of_the_same_attempt_by_people() -> None:
    assert rivals.is_sibling(rival(HUMAN, execution(0)), HUMAN)
    assert not rivals.is_sibling(rival(HUMAN, execution(0, mark="")), HUMAN)
    assert not rivals.is_sibling(rival(replace(HUMAN, task_id=TaskId("u")), execution(0)), HUMAN)
    assert not rivals.is_sibling(rival(replace(HUMAN, retry_count=1), execution(0)), HUMAN)


def test_of_siblings_the_one_that_began_first_goes_first_on_both_sides() -> None:
    early, late = execution(0), execution(1)
    person = Person("alice")
    assert person.first([rival(HUMAN, early)], HUMAN, late) is not None
    assert person.first([rival(HUMAN, late)], HUMAN, early) is None
    # One whose process has ended, or that is taken over, does not.
    assert Person("alice", has_ended=lambda one: one == early).first([rival(HUMAN, early)], HUMAN, late) is None
    assert Person("alice", take_over=True).first([rival(HUMAN, early)], HUMAN, late) is None


def test_the_reports_of_others_are_waited_for_unless_they_have_ended() -> None:
    slept: list[float] = []
    found = [rival(HUMAN, execution(1))]
    assert Person("alice", sleep=slept.append).wait_for_reports(found, HUMAN)
    assert slept == [15.0]
    assert not Person("alice", has_ended=lambda _: True, sleep=slept.append).wait_for_reports(found, HUMAN)
    other = rival(replace(HUMAN, task_id=TaskId("u")), execution(1), replace(SEEN, task_id=TaskId("u")))
    assert not Person("alice", sleep=slept.append).wait_for_reports([other], HUMAN)
    assert len(slept) == 1


def test_what_a_killed_publication_left_does_not_stop_other_steps_for_long() -> None:
    worker = replace(HUMAN, task_id=TaskId("u"), start_time=(NOW + 3500) * 1000)
    assert rivals.is_live(rival(HUMAN, execution(0)), worker)
    later = replace(worker, start_time=(NOW + 3700) * 1000)
    assert not rivals.is_live(rival(HUMAN, execution(0)), later)
    assert rivals.is_live(rival(HUMAN, execution(0, mark="")), later)
