"""A paused attempt against the one that comes after it: what Conductor accepted stays visible, directly on its input.

The two write different files: lakeFS itself would refuse to merge the same one twice, and that is not what is shown here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from greenlet import getcurrent, greenlet
from tests.support.attempts import Bed, once, writing

from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.in_memory.attempt_parts import DictTask
from perago.in_memory.scenario import ref_of, writes
from perago.model import BranchName, CommitId, Outcome, WorkerId


@dataclass
class Duel:
    """An older attempt is stopped before its n-th request, another takes over and is accepted, then the older goes on."""

    bed: Bed
    older: Polled
    task: DictTask
    take_over: Callable[[Polled], CommitId]

    def stopped_at(self, number: int) -> tuple[bool, CommitId | None, Outcome]:
        """Whether the older one got that far, what was accepted meanwhile, and what came of the older one."""
        accepted: list[CommitId] = []
        faults: list[Exception] = []
        tap = self.bed.tap

        def take_over() -> None:
            try:
                accepted.append(self.take_over(self.older))
            except Exception as error:  # noqa: BLE001  the spine would take it for a fault of the lake
                faults.append(error)

        successor = once(take_over)
        tap.at_call = lambda call: successor() if call == number else None
        outcome = self.bed.run(self.older, self.task, tap)
        if faults:
            raise faults[0]
        return len(tap.verbs) >= number, accepted[0] if accepted else None, outcome


def at_every_step(bed: Bed, prepare: Callable[[], Duel]) -> list[Outcome]:
    """The duel again and again, each time stopped one request later, each time on an input of its own."""
    outcomes: list[Outcome] = []
    for number in range(1, 40):
        bed.a = bed.publish({"in/round": str(number).encode()}).id
        duel = prepare()
        reached, accepted, outcome = duel.stopped_at(number)
        if not reached:
            assert number > 4
            return outcomes
        assert accepted is not None
        outcomes.append(outcome)
        assert bed.head().id == accepted, f"stopped before request {number}: {outcome.reason}"
        assert accepted == bed.a or bed.head().parents == (bed.a,)
        assert bed.staging_branches() == []
    raise AssertionError("the older attempt never ended")


def successor(bed: Bed, task: DictTask) -> Callable[[Polled], CommitId]:
    """The next attempt of the same task, polled after the older one was given up, reported and accepted."""

    def take_over(older: Polled) -> CommitId:
        newer = bed.retry(older)
        outcome = bed.run(newer, task)
        assert outcome.status is TaskStatus.COMPLETED, outcome.reason
        assert bed.report(newer, outcome)
        return ref_of(outcome)

    return take_over


CHANGE = {"newer changes": writes("new"), "newer does nothing": DictTask()}


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_merge(bed: Bed, newer: DictTask) -> None:
    outcomes = at_every_step(bed, lambda: Duel(bed, bed.start(), writes("old"), successor(bed, newer)))
    assert any("status is TIMED_OUT, not IN_PROGRESS" in str(outcome.reason) for outcome in outcomes)


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_replacement(bed: Bed, newer: DictTask) -> None:
    def prepare() -> Duel:
        older = bed.start()
        bed.publish({"in/x": b"abandoned"})
        return Duel(bed, older, writes("old"), successor(bed, newer))

    at_every_step(bed, prepare)


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_no_op_relocation(bed: Bed, newer: DictTask) -> None:
    def prepare() -> Duel:
        older = bed.start()
        bed.publish({"in/x": b"abandoned"})
        return Duel(bed, older, DictTask(), successor(bed, newer))

    at_every_step(bed, prepare)


def test_a_rerun_with_the_same_task_id_and_retry_count(bed: Bed) -> None:
    def take_over(older: Polled) -> CommitId:
        bed.conductor.rerun(older.attempt.workflow_id, older.attempt.task_id)
        newer = bed.poll()
        assert (newer.attempt.task_id, newer.attempt.retry_count) == (older.attempt.task_id, older.attempt.retry_count)
        outcome = bed.run(newer, writes("new"))
        assert bed.report(newer, outcome)
        return ref_of(outcome)

    at_every_step(bed, lambda: Duel(bed, bed.start(), writes("old"), take_over))


def test_a_restarted_workflow_counts_retries_from_zero_again(bed: Bed) -> None:
    """Conductor: a restart, and a rerun from an earlier task, give the same workflow id, a new task id and retry count 0."""

    def prepare() -> Duel:
        first = bed.start()
        third = bed.retry(bed.retry(first))
        assert third.attempt.retry_count == 2
        return Duel(bed, third, writes("old"), take_over)

    def take_over(older: Polled) -> CommitId:
        newer = bed.retry(older)
        row = bed.conductor.tasks[newer.attempt.task_id]
        bed.conductor.tasks[newer.attempt.task_id] = replace(row, retry_count=0)
        again = replace(newer, attempt=replace(newer.attempt, retry_count=0))
        outcome = bed.run(again, writes("new"))
        assert bed.report(again, outcome)
        return ref_of(outcome)

    at_every_step(bed, prepare)


def test_a_later_step_of_the_workflow_that_did_not_wait(bed: Bed) -> None:
    """An optional task that timed out: its worker goes on, and the next step takes the same input."""

    def take_over(older: Polled) -> CommitId:
        row = bed.conductor.tasks[older.attempt.task_id]
        bed.conductor.tasks[older.attempt.task_id] = replace(row, status="COMPLETED_WITH_ERRORS")
        other = bed.start()
        attempt = replace(other.attempt, reference_name="next_step")
        outcome = bed.run(replace(other, attempt=attempt), writes("new"))
        assert bed.report(other, outcome)
        return ref_of(outcome)

    at_every_step(bed, lambda: Duel(bed, bed.start(), writes("old"), take_over))


def test_another_workflow_after_this_one_was_terminated(bed: Bed) -> None:
    def take_over(older: Polled) -> CommitId:
        bed.conductor.terminate(older.attempt.workflow_id)
        other = bed.start()
        outcome = bed.run(other, writes("new"))
        assert bed.report(other, outcome)
        return ref_of(outcome)

    at_every_step(bed, lambda: Duel(bed, bed.start(), writes("old"), take_over))


def test_the_next_step_builds_on_what_was_accepted_and_the_older_one_disturbs_neither(bed: Bed) -> None:
    def take_over(older: Polled) -> CommitId:
        built = successor(bed, writes("new"))(older)
        following = bed.poll()
        assert following.input["workspace"]["ref"] == built
        outcome = bed.run(following, writes("y"))
        assert bed.report(following, outcome)
        assert bed.head().parents == (built,)
        bed.a = built
        return ref_of(outcome)

    at_every_step(bed, lambda: Duel(bed, bed.start(steps=2), writes("old"), take_over))


def test_an_older_attempt_never_takes_its_successors_right(bed: Bed) -> None:
    """The successor has staged and stands before its fence when the older one, stopped anywhere, goes on to its end."""
    main = getcurrent()
    for number in range(1, 40):
        bed.a = bed.publish({"in/round": str(number).encode()}).id
        older, tap = bed.start(), bed.tap
        older_run = greenlet(lambda older=older, tap=tap: bed.run(older, writes("old"), tap))
        tap.at_call = lambda call, n=number: main.switch() if call == n else None
        older_run.switch()
        if older_run.dead:
            assert number > 8
            return
        newer_tap = bed.tap
        newer_tap.before["branches"] = once(older_run.switch)
        outcome = bed.run(bed.retry(older), writes("new"), newer_tap)
        assert older_run.dead
        assert outcome.status is TaskStatus.COMPLETED, f"older_run stopped at {number}: {outcome.reason}"
        assert bed.head().id == ref_of(outcome)
        assert bed.head().parents == (bed.a,)
    raise AssertionError("the older attempt never ended")


def test_other_targets_and_foreign_branches_are_left_alone(bed: Bed) -> None:
    side = BranchName("side")
    bed.lake.create_branch(bed.repository, side, bed.a)
    foreign = BranchName("perago-staging-made-by-hand")
    bed.lake.create_branch(bed.repository, foreign, bed.a)
    elsewhere = bed.start()
    on_side = {**elsewhere.input, "workspace": {**elsewhere.input["workspace"], "branch": side}}
    tap = bed.tap
    tap.before["head"] = once(lambda: _published(bed))
    outcome = bed.run(replace(elsewhere, input=on_side), writing(x=b"side"), tap)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert foreign in bed.staging_branches()
    for name in (side, foreign):
        bed.lake.delete_branch(bed.repository, name)


def _published(bed: Bed) -> None:
    assert bed.run(bed.start(), writing(x=b"main")).status is TaskStatus.COMPLETED


def test_two_polls_never_share_an_identity(bed: Bed) -> None:
    """What the fence rests on, and the duels above with it."""
    first = bed.start()
    bed.conductor.hand_back(first.attempt)
    second = bed.poll()
    assert first.attempt.task_id == second.attempt.task_id
    assert first.attempt.worker_id != second.attempt.worker_id != WorkerId("")
    assert bed.run(first, writes("old")).status is TaskStatus.FAILED
    assert bed.run(second, writes("new")).status is TaskStatus.COMPLETED
