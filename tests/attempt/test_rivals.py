"""Rules 2 and 3: writers of one branch announce themselves before they look for others, and live ones are ordered."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from greenlet import greenlet
from tests.support.attempts import AttemptScene, Slow, once, raising, writing
from tests.support.recording import RecordingTap

from perago.conductor.port import Polled
from perago.errors import ConductorUnavailable, LakeUnavailable, TaskStatus
from perago.in_memory.conductor_rows import WorkflowStep
from perago.in_memory.lake import MemoryLake
from perago.model import BranchName, CommitId, Outcome
from perago.operate.protocol_check.dict_task import DictTask, workspace_input
from perago.operate.protocol_check.scene import TASK, ref_of, writes
from perago.protocol import staging_names


def order(verbs: list[str], *wanted: str) -> list[str]:
    return [verb for verb in verbs if verb in wanted]


# announce before listing


def test_a_writer_announces_itself_before_it_lists(scene: AttemptScene) -> None:
    tap = scene.tap
    scene.run(scene.start(), writing(x=b"2"), tap)
    assert order(tap.verbs, "create_branch", "branches", "head", "merge") == [
        "create_branch",
        "branches",
        "branches",
        "head",
        "merge",
    ]


def test_an_attempt_that_announces_itself_late_lists_again_and_reads_the_head_again(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"abandoned"})
    tap = scene.tap
    assert ref_of(scene.run(scene.start(), DictTask(), tap)) == scene.a
    late = tap.verbs[tap.verbs.index("create_branch") :]
    assert order(late, "create_branch", "branches", "head", "relocate") == [
        "create_branch",
        "branches",
        "branches",
        "head",
        "relocate",
        "head",
    ]


def test_a_no_op_whose_branch_is_at_the_input_announces_nothing_and_disturbs_no_live_rival(scene: AttemptScene) -> None:
    other = scene.announce(scene.start())
    tap = scene.tap
    assert ref_of(scene.run(scene.start(), DictTask(), tap)) == scene.a
    assert set(tap.verbs) & {"create_branch", "delete_branch", "interrupt_updates"} == set()
    assert scene.staging_branches() == [other]
    scene.lake.delete_branch(scene.repository, other)


# two live rivals


@dataclass
class Two:
    """Two current attempts on one input; `earlier` has precedence."""

    earlier: Polled
    later: Polled


def two_workflows(scene: AttemptScene) -> Two:
    return Two(scene.start(), scene.start())


def two_lanes(scene: AttemptScene) -> Two:
    given = workspace_input(scene.target())
    scene.conductor.start([WorkflowStep(TASK, "left", given), WorkflowStep(TASK, "right", given)], lanes=2)
    return Two(scene.poll(), scene.poll())


BOTH: dict[str, Callable[[AttemptScene], Two]] = {"two workflows": two_workflows, "two lanes": two_lanes}


def meet(
    scene: AttemptScene, first: Polled, second: Polled, tasks: tuple[DictTask, DictTask], number: int
) -> tuple[Outcome, Outcome | None]:
    """Stop the first before its n-th request until the second has ended; the second does not run if there is no such request."""
    tap, others = scene.tap, []
    runs = once(lambda: others.append(scene.run(second, tasks[1])))
    tap.at_call = lambda call: runs() if call == number else None
    return scene.run(first, tasks[0], tap), others[0] if others else None


@pytest.mark.parametrize("stopped", ["the earlier", "the later"])
@pytest.mark.parametrize("kind", BOTH)
def test_of_two_live_writers_exactly_one_publishes_wherever_they_meet(memory: AttemptScene, kind: str, stopped: str) -> None:
    exactly_one_publishes(memory, BOTH[kind], stopped)


@pytest.mark.parametrize("stopped", ["the earlier", "the later"])
def test_the_same_on_a_real_lake(real_scene: AttemptScene, stopped: str) -> None:
    exactly_one_publishes(real_scene, two_workflows, stopped)


def exactly_one_publishes(scene: AttemptScene, start: Callable[[AttemptScene], Two], stopped: str) -> None:
    for number in range(1, 40):
        scene.renew()
        two = start(scene)
        pair = (two.earlier, two.later) if stopped == "the earlier" else (two.later, two.earlier)
        first, second = meet(scene, *pair, (writes("one"), writes("two")), number)
        if second is None:
            assert number > 8
            return
        won = [outcome for outcome in (first, second) if outcome.status is TaskStatus.COMPLETED]
        assert len(won) == 1, f"stopped before request {number}: {first.reason} / {second.reason}"
        assert scene.head().id == ref_of(won[0])
        assert scene.head().parents == (scene.a,)
        assert scene.staging_branches() == []
    raise AssertionError("the attempt never ended")


@pytest.mark.parametrize("kind", BOTH)
def test_the_later_one_yields_and_says_to_which(scene: AttemptScene, kind: str) -> None:
    two = BOTH[kind](scene)
    tap, others = scene.tap, []
    tap.before["merge"] = once(lambda: others.append(scene.run(two.later, writes("two"))))
    outcome = scene.run(two.earlier, writes("one"), tap)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert others[0].status is TaskStatus.FAILED
    first = two.earlier.attempt
    assert str(others[0].reason).startswith(
        f"step {first.reference_name} of workflow fake {first.workflow_id} publishes to branch main too and started first; "
        "this attempt gives way to it."
    )
    assert scene.revoked() == []


@pytest.mark.parametrize("kind", BOTH)
def test_the_earlier_one_revokes_the_later_one(scene: AttemptScene, kind: str) -> None:
    two = BOTH[kind](scene)
    tap, others = scene.tap, []
    tap.before["merge"] = once(lambda: others.append(scene.run(two.earlier, writes("one"))))
    outcome = scene.run(two.later, writes("two"), tap)
    assert others[0].status is TaskStatus.COMPLETED, others[0].reason
    assert outcome.status is TaskStatus.FAILED
    first = two.earlier.attempt
    assert str(outcome.reason).startswith(
        f"step {first.reference_name} of workflow fake {first.workflow_id} has published {ref_of(others[0])}"
    )
    [revoked] = scene.revoked()
    second = two.later.attempt
    assert revoked.rival == f"step {second.reference_name} of workflow fake {second.workflow_id}"
    assert revoked.was_live


def test_if_the_later_one_has_published_the_earlier_one_is_refused(scene: AttemptScene) -> None:
    two = two_workflows(scene)
    tap, others = scene.tap, []
    tap.after["merge"] = once(lambda: others.append(scene.run(two.earlier, writes("one"))))
    outcome = scene.run(two.later, writes("two"), tap)
    assert ref_of(outcome) == scene.head().id
    assert "has not reported yet" in str(others[0].reason)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("stopped", ["the earlier", "the later"])
def test_a_writer_and_a_no_op_that_moves_back_never_both_succeed_with_one_lost(
    memory: AttemptScene, kind: str, stopped: str
) -> None:
    for number in range(1, 40):
        memory.renew()
        two = BOTH[kind](memory)
        gone = memory.start()
        memory.publish_as(gone, {"in/x": b"abandoned"})
        memory.conductor.terminate(gone.attempt.workflow_id)
        pair = (two.earlier, two.later) if stopped == "the earlier" else (two.later, two.earlier)
        first, second = meet(memory, *pair, (writes("one"), DictTask()), number)
        if second is None:
            assert number > 8
            return
        if first.status is TaskStatus.COMPLETED:
            assert memory.head().id == ref_of(first)
        else:
            assert second.status is TaskStatus.COMPLETED, f"stopped before request {number}: {first.reason} / {second.reason}"
            assert memory.head().id == memory.a
        assert memory.staging_branches() == []
    raise AssertionError("the attempt never ended")


def test_a_no_op_that_has_to_move_the_branch_back_yields_to_an_earlier_writer(scene: AttemptScene) -> None:
    earlier, before = scene.start(), scene.publish({"in/x": b"abandoned"})
    other = scene.announce(earlier)
    outcome = scene.run(scene.start(), DictTask())
    assert outcome.status is TaskStatus.FAILED
    assert "this attempt gives way to it" in str(outcome.reason)
    assert scene.head() == before
    assert scene.staging_branches() == [other]
    scene.lake.delete_branch(scene.repository, other)


def test_a_no_op_that_has_to_move_the_branch_back_revokes_a_later_writer(scene: AttemptScene) -> None:
    earlier = scene.start()
    scene.publish({"in/x": b"abandoned"})
    scene.announce(scene.start())
    assert ref_of(scene.run(earlier, DictTask())) == scene.head().id == scene.a
    assert [revoked.was_live for revoked in scene.revoked()] == [True]
    assert scene.staging_branches() == []


# rivals that Conductor no longer wants


def given_up(scene: AttemptScene, why: str) -> Polled:
    polled = scene.start()
    match why:
        case "terminated":
            scene.conductor.terminate(polled.attempt.workflow_id)
        case "timed out":
            scene.conductor.expire(polled.attempt.task_id)
            scene.poll()
        case "unknown":
            del scene.conductor.tasks[polled.attempt.task_id]
        case "completed":
            scene.set_task(polled, status="COMPLETED")
        case _:
            raise AssertionError(why)
    return polled


@pytest.mark.parametrize("kind", ["change", "no-op"])
@pytest.mark.parametrize("why", ["terminated", "timed out", "unknown", "completed"])
def test_a_rival_that_conductor_no_longer_wants_is_revoked(scene: AttemptScene, why: str, kind: str) -> None:
    """Even if it started first, and also by an attempt that changes nothing."""
    scene.announce(given_up(scene, why))
    outcome = scene.run(scene.start(), writes("y") if kind == "change" else DictTask())
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert scene.staging_branches() == []
    assert [revoked.was_live for revoked in scene.revoked()] == [False]


def test_a_rival_with_a_name_of_the_first_edition_is_revoked(scene: AttemptScene) -> None:
    gone = given_up(scene, "terminated").attempt
    fields = staging_names.staging_branch(gone, staging_names.execution_id(0, bytes(8)), BranchName("main")).removeprefix(
        staging_names.target_prefix(BranchName("main"))
    )
    for target in ("main", "other"):
        name = BranchName(f"{staging_names.PREFIX}{fields}_{staging_names.target_digest(BranchName(target))}")
        scene.lake.create_branch(scene.repository, name, scene.a)
    assert scene.run(scene.start(), writes("y")).status is TaskStatus.COMPLETED
    [left] = scene.staging_branches()
    assert left.endswith(staging_names.target_digest(BranchName("other")))
    scene.lake.delete_branch(scene.repository, left)


def test_an_execution_of_the_same_task_before_this_one_is_revoked(scene: AttemptScene) -> None:
    first = scene.start()
    scene.announce(first)
    scene.conductor.rerun(first.attempt.workflow_id, first.attempt.task_id)
    assert scene.run(scene.poll(), writes("y")).status is TaskStatus.COMPLETED
    assert scene.staging_branches() == []


def test_a_conductor_that_cannot_be_asked_about_a_rival_stops_the_publication(memory: AttemptScene) -> None:
    rival = memory.start()
    memory.announce(rival)
    task = memory.conductor.task

    def unreachable(task_id: object) -> object:
        if task_id == rival.attempt.task_id:
            raise ConductorUnavailable("Conductor cannot be reached")
        return task(task_id)  # pyright: ignore[reportArgumentType]

    memory.conductor.task = unreachable  # pyright: ignore[reportAttributeAccessIssue]
    outcome = memory.run(memory.start(), writes("y"))
    assert outcome.reason == "Conductor cannot be reached"
    assert memory.head().id == memory.a
    assert len(memory.staging_branches()) == 1


# the barrier


@pytest.mark.parametrize("kind", ["change", "no-op"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_updates_are_interrupted_after_the_last_deletion_and_directly_before_the_last_look_at_the_head(
    scene: AttemptScene, kind: str, count: int
) -> None:
    """Also without a rival: its staging branch may have been deleted by an attempt that died afterwards."""
    scene.publish({"in/x": b"abandoned"})
    for _ in range(count):
        scene.announce(given_up(scene, "terminated"))
    tap = scene.tap
    assert scene.run(scene.start(), writes("y") if kind == "change" else DictTask(), tap).status is TaskStatus.COMPLETED
    at = tap.verbs.index("relocate")
    assert tap.verbs[at - 2 : at] == ["interrupt_updates", "head"]
    assert tap.verbs[:at].count("delete_branch") == count
    assert tap.verbs.count("interrupt_updates") == 1


def test_a_merge_needs_no_interruption(scene: AttemptScene) -> None:
    """A merge itself restarts other updates, and the parent of its commit shows what it was merged onto."""
    scene.announce(given_up(scene, "terminated"))
    tap = scene.tap
    assert scene.run(scene.start(), writes("y"), tap).status is TaskStatus.COMPLETED
    assert "interrupt_updates" not in tap.verbs


def test_a_rival_that_is_gone_before_it_is_deleted_is_no_obstacle(scene: AttemptScene) -> None:
    name = scene.announce(given_up(scene, "terminated"))
    tap = scene.tap
    tap.before["delete_branch"] = once(lambda: scene.lake.delete_branch(scene.repository, name))
    assert scene.run(scene.start(), writes("y"), tap).status is TaskStatus.COMPLETED
    assert scene.revoked() == []


@pytest.mark.parametrize("kind", ["change", "no-op"])
def test_without_the_barrier_nothing_is_relocated(scene: AttemptScene, kind: str) -> None:
    before = scene.publish({"in/x": b"abandoned"})
    tap = scene.tap
    tap.before["interrupt_updates"] = raising(LakeUnavailable("interrupt: lakeFS cannot be reached"))
    outcome = scene.run(scene.start(), writes("y") if kind == "change" else DictTask(), tap)
    assert outcome.reason == "interrupt: lakeFS cannot be reached"
    assert scene.head() == before
    assert scene.staging_branches() == []


def test_a_request_under_way_is_not_applied_after_its_staging_branch_was_deleted(memory: AttemptScene) -> None:
    """The relocation of the later one has resolved its source when the earlier one revokes it and reads the head the last time.

    If it were applied then, it would be verified and reported, and the earlier one would replace it.
    """
    assert isinstance(memory.lake, MemoryLake)
    earlier, later, gone = memory.start(), memory.start(), memory.start()
    memory.publish_as(gone, {"in/x": b"abandoned"})
    memory.conductor.terminate(gone.attempt.workflow_id)
    memory.lake.gate = Slow("relocate")
    other = greenlet(lambda: memory.run(later, writes("two")))
    other.switch()
    assert not other.dead
    tap, late = memory.tap, []
    tap.before["relocate"] = once(lambda: late.append(other.switch()))
    outcome = memory.run(earlier, writes("one"), tap)
    assert other.dead
    assert late[0].status is TaskStatus.FAILED
    assert f"step s0 of workflow fake {earlier.attempt.workflow_id}" in str(late[0].reason)
    assert ref_of(outcome) == memory.head().id
    assert memory.head().parents == (memory.a,)


def test_a_no_op_that_moves_back_is_not_overtaken_by_a_request_under_way(memory: AttemptScene) -> None:
    assert isinstance(memory.lake, MemoryLake)
    gone = memory.start()
    memory.publish_as(gone, {"in/x": b"abandoned"})
    memory.conductor.terminate(gone.attempt.workflow_id)
    first = memory.start()
    memory.lake.gate = Slow("relocate")
    other = greenlet(lambda: memory.run(first, writes("one")))
    other.switch()
    assert not other.dead
    second = memory.retry(first)
    tap, late = memory.tap, []
    tap.before["relocate"] = once(lambda: late.append(other.switch()))
    outcome = memory.run(second, DictTask(), tap)
    assert memory.report(second, outcome)
    assert "status is TIMED_OUT, not IN_PROGRESS" in str(late[0].reason)
    assert memory.head().id == ref_of(outcome) == memory.a


def test_what_lands_after_a_no_op_that_kept_its_input_is_replaced_by_the_next_step(memory: AttemptScene) -> None:
    assert isinstance(memory.lake, MemoryLake)
    first = memory.start(steps=2)
    memory.lake.gate = Slow("merge")
    other = greenlet(lambda: memory.run(first, writes("one")))
    other.switch()
    second = memory.retry(first)
    assert memory.report(second, memory.run(second, DictTask()))
    assert other.switch().status is TaskStatus.COMPLETED
    assert memory.head().parents == (memory.a,)
    following = memory.poll()
    outcome = memory.run(following, writes("y"))
    assert ref_of(outcome) == memory.head().id
    assert memory.head().parents == (memory.a,)
    [removed] = memory.removed()
    assert "step s0" in removed.why
    assert "its task is TIMED_OUT" in removed.why


def test_attempts_on_other_branches_are_no_rivals(scene: AttemptScene) -> None:
    side = BranchName("side")
    scene.lake.create_branch(scene.repository, side, scene.a)
    other = RecordingTap(scene.lake)
    outcomes: list[Outcome] = []
    first = scene.start()
    elsewhere = {**first.input, "workspace": {**first.input["workspace"], "branch": side}}
    other.before["merge"] = once(lambda: outcomes.append(scene.run(scene.start(), writes("y"))))
    polled = Polled(first.attempt, elsewhere, first.response_timeout_seconds)
    outcomes.append(scene.run(polled, writes("y"), other))
    assert [outcome.status for outcome in outcomes] == [TaskStatus.COMPLETED] * 2
    assert scene.revoked() == []
    assert scene.lake.branch(scene.repository, side) == CommitId(ref_of(outcomes[1]))
    scene.lake.delete_branch(scene.repository, side)
