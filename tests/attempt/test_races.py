"""A paused attempt and its successor: what Conductor accepted stays visible, directly on its input.

The two write different files, because lakeFS itself would refuse to merge changes of the same file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from greenlet import getcurrent, greenlet
from tests.support.attempts import AttemptScene, once, writing

from perago.conductor.port import Polled
from perago.errors import TaskStatus
from perago.model import BranchName, CommitId, Outcome, WorkerId
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import ref_of, writes


@dataclass
class Takeover:
    """Stops an older attempt before its n-th request, lets another one take over and be accepted, then resumes the older one."""

    scene: AttemptScene
    older: Polled
    task: DictTask
    take_over: Callable[[Polled], CommitId]

    def stopped_at(self, number: int) -> tuple[bool, CommitId | None, Outcome]:
        """Whether the older attempt reached that request, the accepted commit, and the outcome of the older attempt."""
        accepted: list[CommitId] = []
        faults: list[Exception] = []
        tap = self.scene.tap

        def take_over() -> None:
            try:
                accepted.append(self.take_over(self.older))
            except Exception as error:  # noqa: BLE001  the transaction would treat it as an error of the lake
                faults.append(error)

        successor = once(take_over)
        tap.at_call = lambda call: successor() if call == number else None
        outcome = self.scene.run(self.older, self.task, tap)
        if faults:
            raise faults[0]
        return len(tap.verbs) >= number, accepted[0] if accepted else None, outcome


def take_over_at_every_request(scene: AttemptScene, prepare: Callable[[], Takeover]) -> list[Outcome]:
    """Repeat the takeover, stopped one request later each time and with a new input, until there is no such request."""
    outcomes: list[Outcome] = []
    for number in range(1, 40):
        scene.a = scene.publish({"in/round": str(number).encode()}).id
        takeover = prepare()
        reached, accepted, outcome = takeover.stopped_at(number)
        if not reached:
            assert number > 4
            return outcomes
        assert accepted is not None
        outcomes.append(outcome)
        assert scene.head().id == accepted, f"stopped before request {number}: {outcome.reason}"
        assert accepted == scene.a or scene.head().parents == (scene.a,)
        assert scene.staging_branches() == []
    raise AssertionError("the older attempt never ended")


def successor(scene: AttemptScene, task: DictTask) -> Callable[[Polled], CommitId]:
    """Takes over with the next attempt of the same task, after the older one was given up; reports it and has it accepted."""

    def take_over(older: Polled) -> CommitId:
        newer = scene.retry(older)
        outcome = scene.run(newer, task)
        assert outcome.status is TaskStatus.COMPLETED, outcome.reason
        assert scene.report(newer, outcome)
        return ref_of(outcome)

    return take_over


CHANGE = {"newer changes": writes("new"), "newer does nothing": DictTask()}


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_merge(scene: AttemptScene, newer: DictTask) -> None:
    outcomes = take_over_at_every_request(scene, lambda: Takeover(scene, scene.start(), writes("old"), successor(scene, newer)))
    assert any("status is TIMED_OUT, not IN_PROGRESS" in str(outcome.reason) for outcome in outcomes)


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_replacement(scene: AttemptScene, newer: DictTask) -> None:
    def prepare() -> Takeover:
        older = scene.start()
        scene.publish({"in/x": b"abandoned"})
        return Takeover(scene, older, writes("old"), successor(scene, newer))

    take_over_at_every_request(scene, prepare)


@pytest.mark.parametrize("newer", CHANGE.values(), ids=CHANGE.keys())
def test_a_paused_no_op_relocation(scene: AttemptScene, newer: DictTask) -> None:
    def prepare() -> Takeover:
        older = scene.start()
        scene.publish({"in/x": b"abandoned"})
        return Takeover(scene, older, DictTask(), successor(scene, newer))

    take_over_at_every_request(scene, prepare)


def test_a_rerun_with_the_same_task_id_and_retry_count(scene: AttemptScene) -> None:
    def take_over(older: Polled) -> CommitId:
        scene.conductor.rerun(older.attempt.workflow_id, older.attempt.task_id)
        newer = scene.poll()
        assert (newer.attempt.task_id, newer.attempt.retry_count) == (older.attempt.task_id, older.attempt.retry_count)
        outcome = scene.run(newer, writes("new"))
        assert scene.report(newer, outcome)
        return ref_of(outcome)

    take_over_at_every_request(scene, lambda: Takeover(scene, scene.start(), writes("old"), take_over))


def test_a_restarted_workflow_counts_retries_from_zero_again(scene: AttemptScene) -> None:
    """Conductor: a restart, and a rerun from an earlier task, give the same workflow id, a new task id and retry count 0."""

    def prepare() -> Takeover:
        first = scene.start()
        third = scene.retry(scene.retry(first))
        assert third.attempt.retry_count == 2
        return Takeover(scene, third, writes("old"), take_over)

    def take_over(older: Polled) -> CommitId:
        newer = scene.retry(older)
        row = scene.conductor.tasks[newer.attempt.task_id]
        scene.conductor.tasks[newer.attempt.task_id] = replace(row, retry_count=0)
        again = replace(newer, attempt=replace(newer.attempt, retry_count=0))
        outcome = scene.run(again, writes("new"))
        assert scene.report(again, outcome)
        return ref_of(outcome)

    take_over_at_every_request(scene, prepare)


def test_a_later_step_of_the_workflow_that_did_not_wait(scene: AttemptScene) -> None:
    """An optional task that timed out: its worker goes on, and the next step takes the same input."""

    def take_over(older: Polled) -> CommitId:
        row = scene.conductor.tasks[older.attempt.task_id]
        scene.conductor.tasks[older.attempt.task_id] = replace(row, status="COMPLETED_WITH_ERRORS")
        other = scene.start()
        attempt = replace(other.attempt, reference_name="next_step")
        outcome = scene.run(replace(other, attempt=attempt), writes("new"))
        assert scene.report(other, outcome)
        return ref_of(outcome)

    take_over_at_every_request(scene, lambda: Takeover(scene, scene.start(), writes("old"), take_over))


def test_another_workflow_after_this_one_was_terminated(scene: AttemptScene) -> None:
    def take_over(older: Polled) -> CommitId:
        scene.conductor.terminate(older.attempt.workflow_id)
        other = scene.start()
        outcome = scene.run(other, writes("new"))
        assert scene.report(other, outcome)
        return ref_of(outcome)

    take_over_at_every_request(scene, lambda: Takeover(scene, scene.start(), writes("old"), take_over))


def test_the_next_step_builds_on_what_was_accepted_and_the_older_one_disturbs_neither(scene: AttemptScene) -> None:
    def take_over(older: Polled) -> CommitId:
        built = successor(scene, writes("new"))(older)
        following = scene.poll()
        assert following.input["workspace"]["ref"] == built
        outcome = scene.run(following, writes("y"))
        assert scene.report(following, outcome)
        assert scene.head().parents == (built,)
        scene.a = built
        return ref_of(outcome)

    take_over_at_every_request(scene, lambda: Takeover(scene, scene.start(steps=2), writes("old"), take_over))


def test_an_older_attempt_never_takes_its_successors_right(scene: AttemptScene) -> None:
    """The successor has staged and stands before its fence when the older one, stopped anywhere, goes on to its end."""
    main = getcurrent()
    for number in range(1, 40):
        scene.a = scene.publish({"in/round": str(number).encode()}).id
        older, tap = scene.start(), scene.tap
        older_run = greenlet(lambda older=older, tap=tap: scene.run(older, writes("old"), tap))
        tap.at_call = lambda call, n=number: main.switch() if call == n else None
        older_run.switch()
        if older_run.dead:
            assert number > 8
            return
        newer_tap = scene.tap
        newer_tap.before["branches"] = once(older_run.switch)
        outcome = scene.run(scene.retry(older), writes("new"), newer_tap)
        assert older_run.dead
        assert outcome.status is TaskStatus.COMPLETED, f"older_run stopped at {number}: {outcome.reason}"
        assert scene.head().id == ref_of(outcome)
        assert scene.head().parents == (scene.a,)
    raise AssertionError("the older attempt never ended")


def test_other_targets_and_foreign_branches_are_left_alone(scene: AttemptScene) -> None:
    side = BranchName("side")
    scene.lake.create_branch(scene.repository, side, scene.a)
    foreign = BranchName("perago-staging-made-by-hand")
    scene.lake.create_branch(scene.repository, foreign, scene.a)
    elsewhere = scene.start()
    on_side = {**elsewhere.input, "workspace": {**elsewhere.input["workspace"], "branch": side}}
    tap = scene.tap
    tap.before["head"] = once(lambda: _published(scene))
    outcome = scene.run(replace(elsewhere, input=on_side), writing(x=b"side"), tap)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert foreign in scene.staging_branches()
    for name in (side, foreign):
        scene.lake.delete_branch(scene.repository, name)


def _published(scene: AttemptScene) -> None:
    assert scene.run(scene.start(), writing(x=b"main")).status is TaskStatus.COMPLETED


def test_two_polls_never_share_an_identity(scene: AttemptScene) -> None:
    """The attempt fence relies on this, and so do the tests above."""
    first = scene.start()
    scene.conductor.hand_back(first.attempt)
    second = scene.poll()
    assert first.attempt.task_id == second.attempt.task_id
    assert first.attempt.worker_id != second.attempt.worker_id != WorkerId("")
    assert scene.run(first, writes("old")).status is TaskStatus.FAILED
    assert scene.run(second, writes("new")).status is TaskStatus.COMPLETED
