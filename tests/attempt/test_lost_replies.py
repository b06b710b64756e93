"""A publish request whose reply is lost: decided by one read of the head, or reported as unknown."""

import pytest
from tests.support.attempts import AttemptScene, once, raising, writing

from perago import events
from perago.errors import LakeUnavailable, LakeUnknown, TaskStatus
from perago.in_memory.lake import MAIN
from perago.model import BranchName, ExecutionId, ObjectPath, Outcome
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import ref_of
from perago.protocol import commit_labels

CUT = LakeUnknown("no answer from lakeFS, it may or may not have happened")


def cut_off(scene: AttemptScene, verb: str, task: DictTask, *, applied: bool) -> Outcome:
    tap = scene.tap
    (tap.after if applied else tap.before)[verb] = once(raising(CUT))
    outcome = scene.run(scene.start(), task, tap)
    assert tap.verbs.count(verb) == 1, "a publish request is never sent again"
    assert scene.staging_branches() == []
    return outcome


def unknown(outcome: Outcome) -> bool:
    said = "the publish request to branch main broke off and its head does not show the result" in str(outcome.reason)
    return outcome.status is TaskStatus.FAILED and outcome.output is None and said


def test_a_merge_that_happened_is_published(scene: AttemptScene) -> None:
    outcome = cut_off(scene, "merge", writing(x=b"2"), applied=True)
    assert ref_of(outcome) == scene.head().id
    assert scene.head().parents == (scene.a,)


def test_a_merge_that_did_not_is_unknown(scene: AttemptScene) -> None:
    assert unknown(cut_off(scene, "merge", writing(x=b"2"), applied=False))
    assert scene.head().id == scene.a


def test_a_merge_on_top_of_another_commit_is_unknown(scene: AttemptScene) -> None:
    tap = scene.tap
    tap.before["merge"] = once(lambda: _publish(scene))
    tap.after["merge"] = once(raising(CUT))
    assert unknown(scene.run(scene.start(), writing(x=b"2"), tap))


def test_a_replacement_that_happened_is_published(scene: AttemptScene) -> None:
    scene.publish({"in/x": b"abandoned"})
    outcome = cut_off(scene, "relocate", writing(x=b"2"), applied=True)
    assert ref_of(outcome) == scene.head().id
    assert scene.head().parents == (scene.a,)


def test_a_replacement_that_did_not_happen_is_unknown_even_if_the_abandoned_one_has_the_same_content(scene: AttemptScene) -> None:
    """The own request may still be in progress, and would replace the commit that was mistaken for its result."""
    abandoned = scene.publish({"in/x": b"2"})
    assert unknown(cut_off(scene, "relocate", writing(x=b"2"), applied=False))
    assert scene.head() == abandoned


@pytest.mark.parametrize("applied", [True, False])
def test_a_no_op_relocation(scene: AttemptScene, applied: bool) -> None:
    abandoned = scene.publish({"in/x": b"abandoned"})
    outcome = cut_off(scene, "relocate", DictTask(), applied=applied)
    assert unknown(outcome) is not applied
    assert scene.head().id == (scene.a if applied else abandoned.id)


def test_a_head_that_cannot_be_read_afterwards_stays_unknown(scene: AttemptScene) -> None:
    tap = scene.tap

    def server_is_gone() -> None:
        tap.before["head"] = once(raising(LakeUnavailable("lakeFS cannot be reached")))
        raise CUT

    tap.after["merge"] = once(server_is_gone)
    assert unknown(scene.run(scene.start(), writing(x=b"2"), tap))
    assert scene.staging_branches() == []


@pytest.mark.parametrize(("verb", "applied"), [("merge", True), ("merge", False), ("relocate", True), ("relocate", False)])
def test_others_see_this_attempt_until_the_head_was_read(scene: AttemptScene, verb: str, applied: bool) -> None:
    """The staging branch exists as long as the request may still be applied, so that rivals can find and delete it."""
    tap = scene.tap
    seen: list[int] = []
    if verb == "relocate":
        scene.publish({"in/x": b"abandoned"})

    def broken_off() -> None:
        tap.after["head"] = once(lambda: seen.append(len(scene.staging_branches())))
        raise CUT

    (tap.after if applied else tap.before)[verb] = once(broken_off)
    scene.run(scene.start(), writing(x=b"2"), tap)
    assert seen == [1]
    assert tap.verbs[tap.verbs.index(verb) + 1] == "head"
    assert scene.staging_branches() == []


def removing() -> DictTask:
    """Two executions that delete the same file make the same content."""
    return DictTask(lambda workspace: workspace.pop("x"))


def test_a_merge_of_the_same_content_by_another_execution_is_not_taken_for_ours(scene: AttemptScene) -> None:
    """The own merge may still be in progress: it had not been applied when the head was read."""
    tap, others = scene.tap, []

    def another_was_faster() -> None:
        other = BranchName("other")
        scene.lake.create_branch(scene.repository, other, scene.a)
        scene.lake.delete_objects(scene.repository, other, [ObjectPath("in/x")])
        staged = scene.lake.commit_branch(scene.repository, other, "stage", {})
        labels_of_another = commit_labels.write(polled.attempt, ExecutionId("another"), scene.a, 1)
        scene.lake.merge(scene.repository, other, MAIN, message="publish", metadata=labels_of_another, timeout=30)
        scene.lake.delete_branch(scene.repository, other)
        others.append(staged.meta_range_id)
        raise CUT

    polled = scene.start()
    tap.before["merge"] = once(another_was_faster)
    assert unknown(scene.run(polled, removing(), tap))
    assert (scene.head().parents, scene.head().meta_range_id) == ((scene.a,), others[0])
    assert commit_labels.read(scene.head().metadata) is not None


def test_a_merge_of_the_same_content_by_this_execution_is_ours(scene: AttemptScene) -> None:
    outcome = cut_off(scene, "merge", removing(), applied=True)
    assert ref_of(outcome) == scene.head().id


@pytest.mark.parametrize("applied", [True, False])
def test_a_removal_is_recorded_only_if_it_happened(scene: AttemptScene, applied: bool) -> None:
    abandoned = scene.publish({"in/x": b"abandoned"})
    outcome = cut_off(scene, "relocate", writing(x=b"2"), applied=applied)
    removed = [event.commit for event in scene.heard if isinstance(event, events.Removed)]
    assert removed == ([abandoned.id] if applied else [])
    assert (abandoned.id in " ".join(outcome.removals)) is applied


def test_the_retry_replaces_what_was_left_unknown(scene: AttemptScene) -> None:
    tap = scene.tap
    tap.after["merge"] = raising(CUT)
    tap.before["head"] = lambda: tap.before.update(head=raising(LakeUnavailable("gone")))
    first = scene.start()
    assert unknown(scene.run(first, writing(x=b"2"), tap))
    outcome = scene.run(scene.retry(first), writing(x=b"3"))
    assert ref_of(outcome) == scene.head().id
    assert scene.head().parents == (scene.a,)


def _publish(scene: AttemptScene) -> None:
    scene.publish({"in/late": b"late"})
