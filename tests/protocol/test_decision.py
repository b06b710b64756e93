"""The decision, over every combination of what it may look at."""

import itertools

import pytest

from perago.model import CommitId
from perago.protocol.decision import Keep, Merge, MoveBack, Plan, Refuse, Replace, decide

A, B, C = CommitId("a"), CommitId("b"), CommitId("c")


@pytest.mark.parametrize(
    ("head", "parent", "empty", "plan"),
    [
        (A, None, False, Merge()),
        (A, C, False, Merge()),
        (B, A, False, Replace(B)),
        (A, None, True, Keep()),
        (A, C, True, Keep()),
        (B, A, True, MoveBack(B)),
    ],
)
def test_both_tables(head: CommitId, parent: CommitId | None, empty: bool, plan: Plan) -> None:
    assert decide(A, head, parent, change_is_empty=empty, read_only=False) == plan


@pytest.mark.parametrize(
    ("head", "parent", "empty"), [*itertools.product((B, None), (None, B, C), (True, False)), (None, A, False)]
)
def test_every_other_state_of_the_target_is_refused(head: CommitId | None, parent: CommitId | None, empty: bool) -> None:
    plan = decide(A, head, parent, change_is_empty=empty, read_only=False)
    assert isinstance(plan, Refuse)
    assert "a" in plan.reason
    assert str(head) in plan.reason


@pytest.mark.parametrize(("head", "parent", "empty"), list(itertools.product((None, A, B), (None, A, B), (True, False))))
def test_read_only_keeps_whatever_the_target_shows(head: CommitId | None, parent: CommitId | None, empty: bool) -> None:
    assert decide(A, head, parent, change_is_empty=empty, read_only=True) == Keep()
