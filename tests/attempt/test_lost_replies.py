"""A publish request whose reply never came: settled by one read of the head, or reported as unknown. Never guessed."""

import pytest
from tests.support.attempts import Bed, once, raising, writing

from perago import events
from perago.errors import LakeUnavailable, LakeUnknown, TaskStatus
from perago.in_memory.attempt_parts import DictTask
from perago.in_memory.scenario import MAIN, ref_of
from perago.model import BranchName, ExecutionId, ObjectPath, Outcome
from perago.protocol import commit_labels

CUT = LakeUnknown("no answer from lakeFS, it may or may not have happened")


def cut_off(bed: Bed, verb: str, task: DictTask, *, applied: bool) -> Outcome:
    tap = bed.tap
    (tap.after if applied else tap.before)[verb] = once(raising(CUT))
    outcome = bed.run(bed.start(), task, tap)
    assert tap.verbs.count(verb) == 1, "a publish request is never sent again"
    assert bed.staging_branches() == []
    return outcome


def unknown(outcome: Outcome) -> bool:
    said = "the publish request to branch main broke off and its head does not show the result" in str(outcome.reason)
    return outcome.status is TaskStatus.FAILED and outcome.output is None and said


def test_a_merge_that_happened_is_published(bed: Bed) -> None:
    outcome = cut_off(bed, "merge", writing(x=b"2"), applied=True)
    assert ref_of(outcome) == bed.head().id
    assert bed.head().parents == (bed.a,)


def test_a_merge_that_did_not_is_unknown(bed: Bed) -> None:
    assert unknown(cut_off(bed, "merge", writing(x=b"2"), applied=False))
    assert bed.head().id == bed.a


def test_a_merge_on_top_of_another_commit_is_unknown(bed: Bed) -> None:
    tap = bed.tap
    tap.before["merge"] = once(lambda: _publish(bed))
    tap.after["merge"] = once(raising(CUT))
    assert unknown(bed.run(bed.start(), writing(x=b"2"), tap))


def test_a_replacement_that_happened_is_published(bed: Bed) -> None:
    bed.publish({"in/x": b"abandoned"})
    outcome = cut_off(bed, "relocate", writing(x=b"2"), applied=True)
    assert ref_of(outcome) == bed.head().id
    assert bed.head().parents == (bed.a,)


def test_a_replacement_that_did_not_happen_is_unknown_even_if_the_abandoned_one_has_the_same_content(bed: Bed) -> None:
    """Our own request may still be under way and would take the place of what was taken for ours."""
    abandoned = bed.publish({"in/x": b"2"})
    assert unknown(cut_off(bed, "relocate", writing(x=b"2"), applied=False))
    assert bed.head() == abandoned


@pytest.mark.parametrize("applied", [True, False])
def test_a_no_op_relocation(bed: Bed, applied: bool) -> None:
    abandoned = bed.publish({"in/x": b"abandoned"})
    outcome = cut_off(bed, "relocate", DictTask(), applied=applied)
    assert unknown(outcome) is not applied
    assert bed.head().id == (bed.a if applied else abandoned.id)


def test_a_head_that_cannot_be_read_afterwards_stays_unknown(bed: Bed) -> None:
    tap = bed.tap

    def server_is_gone() -> None:
        tap.before["head"] = once(raising(LakeUnavailable("lakeFS cannot be reached")))
        raise CUT

    tap.after["merge"] = once(server_is_gone)
    assert unknown(bed.run(bed.start(), writing(x=b"2"), tap))
    assert bed.staging_branches() == []


@pytest.mark.parametrize(("verb", "applied"), [("merge", True), ("merge", False), ("relocate", True), ("relocate", False)])
def test_others_see_this_attempt_until_the_head_was_read(bed: Bed, verb: str, applied: bool) -> None:
    """As long as the request may still be applied, its staging branch is there to be found and deleted."""
    tap = bed.tap
    seen: list[int] = []
    if verb == "relocate":
        bed.publish({"in/x": b"abandoned"})

    def broken_off() -> None:
        tap.after["head"] = once(lambda: seen.append(len(bed.staging_branches())))
        raise CUT

    (tap.after if applied else tap.before)[verb] = once(broken_off)
    bed.run(bed.start(), writing(x=b"2"), tap)
    assert seen == [1]
    assert tap.verbs[tap.verbs.index(verb) + 1] == "head"
    assert bed.staging_branches() == []


def removing() -> DictTask:
    """Two executions that delete the same file make the same content."""
    return DictTask(lambda workspace: workspace.pop("x"))


def test_a_merge_of_the_same_content_by_another_execution_is_not_taken_for_ours(bed: Bed) -> None:
    """Ours may still be under way: it was not applied when the head was read."""
    tap, others = bed.tap, []

    def another_was_faster() -> None:
        other = BranchName("other")
        bed.lake.create_branch(bed.repository, other, bed.a)
        bed.lake.delete_objects(bed.repository, other, [ObjectPath("in/x")])
        staged = bed.lake.commit_branch(bed.repository, other, "stage", {})
        labels_of_another = commit_labels.write(polled.attempt, ExecutionId("another"), bed.a, 1)
        bed.lake.merge(bed.repository, other, MAIN, message="publish", metadata=labels_of_another, timeout=30)
        bed.lake.delete_branch(bed.repository, other)
        others.append(staged.meta_range_id)
        raise CUT

    polled = bed.start()
    tap.before["merge"] = once(another_was_faster)
    assert unknown(bed.run(polled, removing(), tap))
    assert (bed.head().parents, bed.head().meta_range_id) == ((bed.a,), others[0])
    assert commit_labels.read(bed.head().metadata) is not None


def test_a_merge_of_the_same_content_by_this_execution_is_ours(bed: Bed) -> None:
    outcome = cut_off(bed, "merge", removing(), applied=True)
    assert ref_of(outcome) == bed.head().id


@pytest.mark.parametrize("applied", [True, False])
def test_a_removal_is_recorded_only_if_it_happened(bed: Bed, applied: bool) -> None:
    abandoned = bed.publish({"in/x": b"abandoned"})
    outcome = cut_off(bed, "relocate", writing(x=b"2"), applied=applied)
    removed = [event.commit for event in bed.heard if isinstance(event, events.Removed)]
    assert removed == ([abandoned.id] if applied else [])
    assert (abandoned.id in " ".join(outcome.removals)) is applied


def test_the_retry_replaces_what_was_left_unknown(bed: Bed) -> None:
    tap = bed.tap
    tap.after["merge"] = raising(CUT)
    tap.before["head"] = lambda: tap.before.update(head=raising(LakeUnavailable("gone")))
    first = bed.start()
    assert unknown(bed.run(first, writing(x=b"2"), tap))
    outcome = bed.run(bed.retry(first), writing(x=b"3"))
    assert ref_of(outcome) == bed.head().id
    assert bed.head().parents == (bed.a,)


def _publish(bed: Bed) -> None:
    bed.publish({"in/late": b"late"})
