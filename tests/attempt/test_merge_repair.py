"""A merge on top of a commit that was not there when the head was read: only a verified abandoned commit is removed."""

from collections.abc import Callable

import pytest
from tests.support.attempts import AttemptScene, once, raising, writing
from tests.support.recording import RecordingTap

from perago import events
from perago.conductor.port import Polled
from perago.errors import LakeUnavailable, TaskStatus
from perago.model import Commit, Outcome
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import ref_of


def by_an_attempt(status: str, *, output_names_it: bool = False) -> Callable[[AttemptScene], Commit]:
    def arrange(scene: AttemptScene) -> Commit:
        other: Polled = scene.start()
        made = scene.publish_as(other, {"in/late": b"late"})
        scene.set_task(other, status=status, output=scene.output_naming(made.id) if output_names_it else {})
        return made

    return arrange


def by_hand(scene: AttemptScene) -> Commit:
    return scene.publish({"in/late": b"late"})


def by_a_task_that_is_gone(scene: AttemptScene) -> Commit:
    other = scene.start()
    made = scene.publish_as(other, {"in/late": b"late"})
    del scene.conductor.tasks[other.attempt.task_id]
    return made


def by_an_execution_that_conductor_completed_with_the_input(scene: AttemptScene) -> Commit:
    other = scene.start()
    made = scene.publish_as(other, {"in/late": b"late"})
    scene.set_task(other, status="COMPLETED", output=scene.output_naming(scene.a))
    return made


def two_abandoned(scene: AttemptScene) -> Commit:
    by_an_attempt("FAILED")(scene)
    other = scene.start()
    scene.set_task(other, status="FAILED")
    return scene.publish_as(other, {"in/later": b"late"})


MENDED = {"FAILED": by_an_attempt("FAILED"), "TIMED_OUT": by_an_attempt("TIMED_OUT"), "CANCELED": by_an_attempt("CANCELED")}
KEPT = {
    "live": by_an_attempt("IN_PROGRESS"),
    "accepted": by_an_attempt("COMPLETED", output_names_it=True),
    "made by hand": by_hand,
    "unknown": by_a_task_that_is_gone,
    "completed with the input": by_an_execution_that_conductor_completed_with_the_input,
    "two commits": two_abandoned,
}


def meets(scene: AttemptScene, arrange: Callable[[AttemptScene], Commit]) -> tuple[Outcome, Commit, RecordingTap]:
    tap, met = scene.tap, []
    polled = scene.start()
    tap.before["merge"] = once(lambda: met.append(arrange(scene)))
    outcome = scene.run(polled, writing(x=b"2"), tap)
    assert scene.staging_branches() == []
    return outcome, met[0], tap


@pytest.mark.parametrize("arrange", MENDED.values(), ids=MENDED.keys())
def test_an_abandoned_one_is_removed_with_the_merge_commit(
    scene: AttemptScene, arrange: Callable[[AttemptScene], Commit]
) -> None:
    outcome, met, _ = meets(scene, arrange)
    assert ref_of(outcome) == scene.head().id
    assert scene.head().parents == (scene.a,)
    assert scene.content(scene.head().id) == {"in/x": b"2", "other": b"outside"}
    [removed] = scene.removed()
    assert (removed.removal, removed.head) == (events.Removal.MEND, scene.head().id)
    assert scene.lake.commit(scene.repository, removed.commit).parents == (met.id,)  # pyright: ignore[reportArgumentType]
    assert met.id in removed.why
    assert outcome.removals == (str(removed),)


@pytest.mark.parametrize("arrange", KEPT.values(), ids=KEPT.keys())
def test_any_other_stays_and_the_attempt_removes_its_own_commit_again(
    scene: AttemptScene, arrange: Callable[[AttemptScene], Commit]
) -> None:
    outcome, met, _ = meets(scene, arrange)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.output is None
    assert str(outcome.reason).startswith(
        f"{met.id} reached branch main while this attempt published; its own commit was removed"
    )
    assert scene.head() == met
    [removed] = scene.removed()
    assert (removed.removal, removed.head) == (events.Removal.UNDO, met.id)
    assert scene.lake.commit(scene.repository, removed.commit).parents == (met.id,)  # pyright: ignore[reportArgumentType]
    assert outcome.removals == (str(removed),)


def test_the_attempt_is_announced_by_a_second_handle_and_lists_before_it_removes_its_own_commit(scene: AttemptScene) -> None:
    _, _, tap = meets(scene, KEPT["accepted"])
    after = tap.verbs[tap.verbs.index("merge") + 1 :]
    assert [verb for verb in after if verb not in {"commit", "uncommitted"}] == [
        "create_branch",
        "branches",
        "branches",
        "interrupt_updates",
        "head",
        "relocate",
        "head",
        "delete_branch",
        "delete_branch",
    ]


@pytest.mark.parametrize("arrange", [MENDED["FAILED"], KEPT["accepted"]], ids=["mend", "undo"])
def test_nothing_is_removed_where_another_has_moved_on(scene: AttemptScene, arrange: Callable[[AttemptScene], Commit]) -> None:
    tap, on_top = scene.tap, []
    tap.before["merge"] = once(lambda: arrange(scene))
    tap.after["merge"] = once(lambda: on_top.append(scene.publish({"in/more": b"more"})))
    outcome = scene.run(scene.start(), writing(x=b"2"), tap)
    assert outcome.status is TaskStatus.FAILED
    assert "moved while this attempt was about to publish: another writer was faster" in str(outcome.reason)
    assert scene.head() == on_top[0]
    assert scene.removed() == []
    assert scene.staging_branches() == []


def test_an_attempt_that_conductor_gave_up_meanwhile_removes_nothing(scene: AttemptScene) -> None:
    tap, polled = scene.tap, scene.start()
    tap.before["merge"] = once(lambda: MENDED["FAILED"](scene))
    tap.after["merge"] = once(lambda: scene.conductor.expire(polled.attempt.task_id))
    outcome = scene.run(polled, writing(x=b"2"), tap)
    assert "TIMED_OUT" in str(outcome.reason)
    assert scene.content(scene.head().id)["in/late"] == b"late"
    assert scene.removed() == []


@pytest.mark.parametrize("kind", ["change", "no-op"])
def test_a_removal_is_recorded_also_where_the_attempt_fails_after_it(scene: AttemptScene, kind: str) -> None:
    abandoned = scene.publish({"in/x": b"abandoned"})
    tap = scene.tap
    tap.after["relocate"] = lambda: tap.before.update(head=raising(LakeUnavailable("read the head: lakeFS cannot be reached")))
    outcome = scene.run(scene.start(), writing(x=b"2") if kind == "change" else DictTask(), tap)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == "read the head: lakeFS cannot be reached"
    [removed] = scene.removed()
    assert removed.commit == abandoned.id
    assert outcome.removals == (str(removed),)
    assert outcome.task_log[0] == str(removed)


def test_a_merge_that_does_not_hold_what_was_staged_fails_closed(memory: AttemptScene) -> None:
    """lakeFS's three-way merge has dropped files before."""

    class Dropping(RecordingTap):
        def commit(self, repository: object, ref: object) -> Commit:
            found = self._lake.commit(repository, ref)  # pyright: ignore[reportArgumentType]
            return Commit(found.id, found.parents, memory.head().meta_range_id[:-1] + "?", metadata=found.metadata)  # pyright: ignore[reportArgumentType]

    outcome = memory.run(memory.start(), writing(x=b"2"), Dropping(memory.lake))
    assert outcome.status is TaskStatus.FAILED
    assert outcome.reason == "the merge into branch main does not hold what was staged"
