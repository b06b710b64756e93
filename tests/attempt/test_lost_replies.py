"""A publish request whose reply never came: settled by one read of the head, or reported as unknown. Never guessed."""

import pytest
from tests.attempt.bed import Bed, once, raising, writing

from perago.errors import LakeUnavailable, LakeUnknown, TaskStatus
from perago.model import Outcome
from perago.testing.attempts import DictTask
from perago.testing.scene import ref_of

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


def test_a_merge_on_top_of_somebody_elses_is_unknown(bed: Bed) -> None:
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


@pytest.mark.parametrize("verb", ["delete_branch", "head"])
def test_what_cannot_be_read_or_revoked_afterwards_stays_unknown(bed: Bed, verb: str) -> None:
    tap = bed.tap

    def server_is_gone() -> None:
        tap.before[verb] = once(raising(LakeUnavailable("lakeFS cannot be reached")))
        raise CUT

    tap.after["merge"] = once(server_is_gone)
    assert unknown(bed.run(bed.start(), writing(x=b"2"), tap))
    assert bed.staging_branches() == []


def test_our_right_is_given_up_before_the_head_is_read(bed: Bed) -> None:
    tap = bed.tap
    tap.after["merge"] = once(raising(CUT))
    bed.run(bed.start(), writing(x=b"2"), tap)
    after = tap.verbs[tap.verbs.index("merge") + 1 :]
    assert after[:2] == ["delete_branch", "head"]


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
