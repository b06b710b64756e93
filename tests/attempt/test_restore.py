"""Rule 7: the commit that Conductor accepted is put back where another execution of its task displaced it."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

import pytest
from greenlet import greenlet
from tests.support.attempts import Bed, Slow, once, raising, writing

from perago import events
from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor.port import Polled
from perago.errors import LakeUnknown, PublishFenceError, TaskStatus
from perago.in_memory.attempt_parts import DictTask, DirectFence
from perago.in_memory.lake import MemoryLake
from perago.in_memory.scenario import ref_of, writes
from perago.model import BranchName, CommitId, WorkspaceRef
from perago.protocol import staging_names


@dataclass
class Displaced:
    """Conductor completed the task with `accepted`; the branch shows `shown`, of the other execution."""

    bed: Bed
    first: Polled
    second: Polled
    accepted: CommitId
    shown: CommitId

    def restore(self, lake: Any = None) -> bool:
        used, attempt = lake or self.bed.lake, self.first.attempt
        effects = instrumentation.Effects(self.bed.heard.append, time.monotonic)
        target = WorkspaceRef(self.bed.repository, self.bed.branch, self.bed.a)
        created = self.bed.conductor.snapshot(attempt.workflow_id, attempt.task_id).workflow_created
        staging = Staging(used, effects, attempt, staging_names.execution_id(0, secrets.token_bytes(8)), target, created)
        branch = TargetBranch(used, DirectFence(self.bed.conductor), effects, attempt, target)
        return Restoration(staging, branch, 30).restore(self.accepted)

    @property
    def head(self) -> CommitId:
        return self.bed.head().id

    def removals(self) -> list[tuple[str, str, str]]:
        return [(event.removal.value, event.commit, event.head) for event in self.bed.removed()]


def displaced(bed: Bed, second_task: DictTask | None = None, steps: int = 1) -> Displaced:
    first = bed.start(steps=steps)
    early = bed.run(first, writes("first"))
    bed.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    second = bed.poll()
    assert bed.run(second, second_task or writes("second")).status is TaskStatus.COMPLETED
    bed.conductor.report(first.attempt, early, timeout=1)
    assert bed.conductor.tasks[first.attempt.task_id].status == "COMPLETED"
    bed.heard.clear()
    assert bed.head().id != ref_of(early)
    return Displaced(bed, first, second, ref_of(early), bed.head().id)


def test_the_accepted_commit_is_put_back_and_the_removal_recorded(bed: Bed) -> None:
    case = displaced(bed)
    assert case.restore()
    assert case.head == case.accepted
    assert case.removals() == [("restore", case.shown, case.accepted)]
    assert bed.staging_branches() == []


def test_it_is_put_back_also_where_the_other_execution_moved_the_branch_back(bed: Bed) -> None:
    case = displaced(bed, DictTask())
    assert case.shown == bed.a
    assert case.restore()
    assert case.head == case.accepted


def test_a_second_restoration_finds_nothing_to_do(bed: Bed) -> None:
    case = displaced(bed)
    assert case.restore()
    tap = bed.tap
    assert not case.restore(tap)
    assert tap.verbs == ["interrupt_updates", "head"]
    assert case.head == case.accepted


def test_a_head_that_descends_from_the_accepted_commit_stays(bed: Bed) -> None:
    case = displaced(bed, steps=2)
    following = bed.poll()
    assert following.input["workspace"]["ref"] == case.accepted
    outcome = bed.run(following, writes("y"))
    assert bed.head().parents == (case.accepted,)
    assert not case.restore()
    assert case.head == ref_of(outcome)
    later = bed.publish({"in/x": b"further on"})
    assert not case.restore()
    assert case.head == later.id


@pytest.mark.parametrize("kind", ["by hand", "by another task"])
def test_a_head_that_another_made_stays(bed: Bed, kind: str) -> None:
    case = displaced(bed, DictTask())
    files = {"in/x": b"of another"}
    made = bed.publish(files) if kind == "by hand" else bed.publish_as(bed.start(), files)
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == made.id
    assert case.removals() == []


def test_a_commit_on_top_of_the_one_that_displaced_it_stays(bed: Bed) -> None:
    case = displaced(bed)
    made = bed.publish({"in/x": b"on top"})
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == made.id


def test_a_commit_that_does_not_stand_on_the_input_is_never_put_back(bed: Bed) -> None:
    case = displaced(bed)
    side = BranchName("side")
    bed.lake.create_branch(bed.repository, side, case.shown)
    case.accepted = bed.publish({"in/x": b"on top"}, side).id
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == case.shown
    bed.lake.delete_branch(bed.repository, side)


def test_a_live_rival_is_left_alone(bed: Bed) -> None:
    case = displaced(bed)
    rival = bed.announce(bed.start())
    assert not case.restore()
    assert case.head == case.shown
    assert bed.staging_branches() == [rival]
    bed.lake.delete_branch(bed.repository, rival)


def test_a_rival_that_is_over_is_revoked_and_updates_are_interrupted_first(bed: Bed) -> None:
    case = displaced(bed)
    gone = bed.start()
    bed.announce(gone)
    bed.conductor.terminate(gone.attempt.workflow_id)
    tap = bed.tap
    assert case.restore(tap)
    assert case.head == case.accepted
    at = tap.verbs.index("relocate")
    assert tap.verbs[at - 3 : at] == ["delete_branch", "interrupt_updates", "head"]
    assert tap.verbs.index("create_branch") < tap.verbs.index("branches")
    assert [event.was_live for event in bed.revoked()] == [False]


def test_a_branch_that_moves_meanwhile_stays_where_it_moved(bed: Bed) -> None:
    case = displaced(bed)
    tap, moved = bed.tap, []
    tap.after["branches"] = once(lambda: moved.append(bed.publish({"in/x": b"moved"})))
    with pytest.raises(PublishFenceError, match="moved while"):
        case.restore(tap)
    assert case.head == moved[0].id
    assert bed.staging_branches() == []


def test_a_next_step_that_publishes_meanwhile_revokes_the_handle(bed: Bed) -> None:
    case = displaced(bed, steps=2)
    tap, outcomes = bed.tap, []
    following = bed.poll()
    tap.before["relocate"] = once(lambda: outcomes.append(bed.run(following, writing(y=b"next"))))
    assert not case.restore(tap)
    assert case.head == ref_of(outcomes[0])
    assert bed.head().parents == (case.accepted,)
    assert [event.removal for event in bed.removed()] == [events.Removal.REPLACE]
    assert bed.staging_branches() == []


def test_two_executions_that_restore_at_once_do_not_revoke_each_other(bed: Bed) -> None:
    """After a late report both executions of the task find their report superseded."""
    case = displaced(bed)
    tap, others = bed.tap, list[bool]()
    tap.before["interrupt_updates"] = once(lambda: others.append(case.restore()))
    assert not case.restore(tap)
    assert others == [True]
    assert case.head == case.accepted
    assert bed.revoked() == []
    assert bed.staging_branches() == []


def test_a_completed_task_that_was_rerun_meanwhile_is_left_alone(bed: Bed) -> None:
    case = displaced(bed)
    tap = bed.tap
    tap.after["create_branch"] = once(lambda: bed.set_task(case.first, output=bed.output_naming(case.shown)))
    assert not case.restore(tap)
    assert case.head == case.shown


def test_a_lost_reply_of_the_relocation_is_settled_by_the_head(bed: Bed) -> None:
    case = displaced(bed)
    tap = bed.tap
    tap.after["relocate"] = once(raising(LakeUnknown("no answer")))
    assert not case.restore(tap)
    assert case.head == case.accepted


def test_an_own_relocation_that_is_under_way_does_not_land_after_the_look(memory: Bed) -> None:
    """The reply to the rerun's replacement was lost: it is applied only after its staging branch is gone and its task is over."""
    assert isinstance(memory.lake, MemoryLake)
    first = memory.start()
    accepted = memory.run(first, writes("first"))
    memory.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    second = memory.poll()
    gate = memory.lake.gate = Slow("relocate")
    other = greenlet(lambda: memory.run(second, writes("second")))
    other.switch()
    assert gate.is_stopped
    memory.conductor.report(first.attempt, accepted, timeout=1)
    for name in memory.staging_branches():
        memory.lake.delete_branch(memory.repository, name)
    case = Displaced(memory, first, second, ref_of(accepted), ref_of(accepted))
    assert not case.restore()
    assert other.switch().status is TaskStatus.FAILED
    assert case.head == ref_of(accepted)
