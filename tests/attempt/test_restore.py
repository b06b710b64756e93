"""Rule 7: the commit that Conductor accepted is put back where another execution of its task displaced it."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

import pytest
from greenlet import greenlet
from tests.support.attempts import AttemptScene, Slow, once, raising, writing

from perago import events
from perago.attempt import instrumentation
from perago.attempt.restore import Restoration
from perago.attempt.staging import Staging
from perago.attempt.target_branch import TargetBranch
from perago.conductor.direct_fence import DirectFence
from perago.conductor.port import Polled
from perago.errors import LakeUnknown, PublishFenceError, TaskStatus
from perago.in_memory.lake import MemoryLake
from perago.model import BranchName, CommitId, WorkspaceRef
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import ref_of, writes
from perago.protocol import staging_names


@dataclass
class Displaced:
    """Conductor completed the task with `accepted`; the branch shows `shown`, of the other execution."""

    scene: AttemptScene
    first: Polled
    second: Polled
    accepted: CommitId
    shown: CommitId

    def restore(self, lake: Any = None) -> bool:
        used, attempt = lake or self.scene.lake, self.first.attempt
        recorder = instrumentation.EffectRecorder(self.scene.heard.append, time.monotonic)
        target = WorkspaceRef(self.scene.repository, self.scene.branch, self.scene.a)
        staging = Staging(used, recorder, attempt, staging_names.execution_id(0, secrets.token_bytes(8)), target)
        branch = TargetBranch(used, DirectFence(self.scene.conductor), recorder, attempt, target)
        return Restoration(staging, branch, 30).restore(self.accepted)

    @property
    def head(self) -> CommitId:
        return self.scene.head().id

    def removals(self) -> list[tuple[str, str, str]]:
        return [(event.removal.value, event.commit, event.head) for event in self.scene.removed()]


def displaced(scene: AttemptScene, second_task: DictTask | None = None, steps: int = 1) -> Displaced:
    first = scene.start(steps=steps)
    early = scene.run(first, writes("first"))
    scene.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    second = scene.poll()
    assert scene.run(second, second_task or writes("second")).status is TaskStatus.COMPLETED
    scene.conductor.report(first.attempt, early, timeout=1)
    assert scene.conductor.tasks[first.attempt.task_id].status == "COMPLETED"
    scene.heard.clear()
    assert scene.head().id != ref_of(early)
    return Displaced(scene, first, second, ref_of(early), scene.head().id)


def test_the_accepted_commit_is_put_back_and_the_removal_recorded(scene: AttemptScene) -> None:
    case = displaced(scene)
    assert case.restore()
    assert case.head == case.accepted
    assert case.removals() == [("restore", case.shown, case.accepted)]
    assert scene.staging_branches() == []


def test_it_is_put_back_also_where_the_other_execution_moved_the_branch_back(scene: AttemptScene) -> None:
    case = displaced(scene, DictTask())
    assert case.shown == scene.a
    assert case.restore()
    assert case.head == case.accepted


def test_a_second_restoration_finds_nothing_to_do(scene: AttemptScene) -> None:
    case = displaced(scene)
    assert case.restore()
    tap = scene.tap
    assert not case.restore(tap)
    assert tap.verbs == ["interrupt_updates", "head"]
    assert case.head == case.accepted


def test_a_head_that_descends_from_the_accepted_commit_stays(scene: AttemptScene) -> None:
    case = displaced(scene, steps=2)
    following = scene.poll()
    assert following.input["workspace"]["ref"] == case.accepted
    outcome = scene.run(following, writes("y"))
    assert scene.head().parents == (case.accepted,)
    assert not case.restore()
    assert case.head == ref_of(outcome)
    later = scene.publish({"in/x": b"further on"})
    assert not case.restore()
    assert case.head == later.id


@pytest.mark.parametrize("kind", ["by hand", "by another task"])
def test_a_head_that_another_made_stays(scene: AttemptScene, kind: str) -> None:
    case = displaced(scene, DictTask())
    files = {"in/x": b"of another"}
    made = scene.publish(files) if kind == "by hand" else scene.publish_as(scene.start(), files)
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == made.id
    assert case.removals() == []


def test_a_commit_on_top_of_the_one_that_displaced_it_stays(scene: AttemptScene) -> None:
    case = displaced(scene)
    made = scene.publish({"in/x": b"on top"})
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == made.id


def test_a_commit_that_does_not_stand_on_the_input_is_never_put_back(scene: AttemptScene) -> None:
    case = displaced(scene)
    side = BranchName("side")
    scene.lake.create_branch(scene.repository, side, case.shown)
    case.accepted = scene.publish({"in/x": b"on top"}, side).id
    with pytest.raises(PublishFenceError, match="has gone on without it; run `perago doctor`"):
        case.restore()
    assert case.head == case.shown
    scene.lake.delete_branch(scene.repository, side)


def test_a_live_rival_is_left_alone(scene: AttemptScene) -> None:
    case = displaced(scene)
    rival = scene.announce(scene.start())
    assert not case.restore()
    assert case.head == case.shown
    assert scene.staging_branches() == [rival]
    scene.lake.delete_branch(scene.repository, rival)


def test_a_rival_that_is_over_is_revoked_and_updates_are_interrupted_first(scene: AttemptScene) -> None:
    case = displaced(scene)
    gone = scene.start()
    scene.announce(gone)
    scene.conductor.terminate(gone.attempt.workflow_id)
    tap = scene.tap
    assert case.restore(tap)
    assert case.head == case.accepted
    at = tap.verbs.index("relocate")
    assert tap.verbs[at - 3 : at] == ["delete_branch", "interrupt_updates", "head"]
    assert tap.verbs.index("create_branch") < tap.verbs.index("branches")
    assert [event.was_live for event in scene.revoked()] == [False]


def test_a_branch_that_moves_meanwhile_stays_where_it_moved(scene: AttemptScene) -> None:
    case = displaced(scene)
    tap, moved = scene.tap, []
    tap.after["branches"] = once(lambda: moved.append(scene.publish({"in/x": b"moved"})))
    with pytest.raises(PublishFenceError, match="moved while"):
        case.restore(tap)
    assert case.head == moved[0].id
    assert scene.staging_branches() == []


def test_a_next_step_that_publishes_meanwhile_revokes_the_handle(scene: AttemptScene) -> None:
    case = displaced(scene, steps=2)
    tap, outcomes = scene.tap, []
    following = scene.poll()
    tap.before["relocate"] = once(lambda: outcomes.append(scene.run(following, writing(y=b"next"))))
    assert not case.restore(tap)
    assert case.head == ref_of(outcomes[0])
    assert scene.head().parents == (case.accepted,)
    assert [event.removal for event in scene.removed()] == [events.Removal.REPLACE]
    assert scene.staging_branches() == []


def test_two_executions_that_restore_at_once_do_not_revoke_each_other(scene: AttemptScene) -> None:
    """After a late report both executions of the task find their report superseded."""
    case = displaced(scene)
    tap, others = scene.tap, list[bool]()
    tap.before["interrupt_updates"] = once(lambda: others.append(case.restore()))
    assert not case.restore(tap)
    assert others == [True]
    assert case.head == case.accepted
    assert scene.revoked() == []
    assert scene.staging_branches() == []


def test_a_completed_task_that_was_rerun_meanwhile_is_left_alone(scene: AttemptScene) -> None:
    case = displaced(scene)
    tap = scene.tap
    tap.after["create_branch"] = once(lambda: scene.set_task(case.first, output=scene.output_naming(case.shown)))
    assert not case.restore(tap)
    assert case.head == case.shown


def test_a_lost_reply_of_the_relocation_is_settled_by_the_head(scene: AttemptScene) -> None:
    case = displaced(scene)
    tap = scene.tap
    tap.after["relocate"] = once(raising(LakeUnknown("no answer")))
    assert not case.restore(tap)
    assert case.head == case.accepted


def test_an_own_relocation_that_is_under_way_does_not_land_after_the_look(memory: AttemptScene) -> None:
    """The reply to the rerun's replacement is lost; the request is applied after its staging branch and its task are gone."""
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
