from pathlib import Path

import pytest
from model import cases, check, story, tlc

from perago.provision.cache import Cache, default_root
from perago.provision.cancel import Cancel
from perago.provision.progress import quiet

VIOLATION = """\
Error: Invariant NeverLost is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ head = 0
/\\ pc = <<"body", "idle">>
/\\ onto = <<99, 99>>
/\\ input = <<0, 0>>
/\\ todo = <<{}, {1, 2}>>
/\\ line = <<[commit |-> 0, exact |-> TRUE]>>

State 2: <Stage line 1, col 2 to line 3, col 4 of module Publication>
/\\ head = 11
/\\ pc = <<"list", "idle">>
/\\ onto = <<0, 99>>
/\\ input = <<0, 0>>
/\\ todo = <<{}, {1, 2}>>
/\\ line = << [commit |-> 0, exact |-> TRUE],
   [commit |-> 11, exact |-> FALSE] >>

46757 states generated, 19048 distinct states found, 4913 states left on queue.
"""


@pytest.fixture(scope="session")
def checker() -> tlc.Checker:
    cancel = Cancel()
    try:
        return tlc.install(Cache(default_root(), cancel, quiet))
    finally:
        cancel.close()


def case(name: str) -> cases.Case:
    return next(one for one in cases.cases() if one.name == name)


def test_a_violation_is_read_with_its_states() -> None:
    verdict = tlc.read(VIOLATION, 1.0)
    assert (verdict.violated, verdict.states, verdict.holds) == ("NeverLost", 19048, False)
    assert [moment.action for moment in verdict.trace] == ["Initial", "Stage"]
    assert verdict.trace[0].state["todo"] == [[], [1, 2]]
    assert verdict.trace[1].state["line"] == [{"commit": 0, "exact": True}, {"commit": 11, "exact": False}]


def test_a_step_is_told_with_what_the_target_shows() -> None:
    told = list(story.tell(tlc.read(VIOLATION, 1.0).trace))
    assert told == [story.Line("execution 1", "stages its change on a branch of its own", "A → M1")]


def test_output_without_a_verdict_is_an_error() -> None:
    with pytest.raises(tlc.CheckerError, match="no verdict"):
        tlc.read("Error: Parsing or semantic analysis failed.", 1.0)


def test_every_named_rule_is_one_the_model_knows() -> None:
    text = Path(tlc.SPECIFICATION).read_text()
    for one in cases.cases():
        assert all(f'"{name}"' in text for name in (one.off, one.world) if name)
        assert all(f"\n{name} ==" in text for name in one.invariants)
        assert set(one.invariants) <= set(check._BROKEN)


def test_every_one_of_the_four_rules_is_expected_to_be_missed() -> None:
    missed = {one.off for one in cases.cases() if one.group is cases.Group.RULE and not one.holds}
    assert missed == {"revoke", "byname", "handle", "verify"}


def test_depth_adds_executions_where_the_protocol_has_to_hold() -> None:
    usual, deeper = cases.cases(), cases.cases(1)
    assert all(new.slots - old.slots == old.holds for old, new in zip(usual, deeper, strict=True))


def test_tlc_finds_the_protocol_safe_for_two_executions(checker: tlc.Checker) -> None:
    small = cases.Case("small", cases.Group.PROTOCOL, "", holds=True, slots=2, steps=2, reruns=1)
    verdict = checker.check(small)
    assert verdict.holds
    assert verdict.states > 100


@pytest.mark.parametrize("name", ["revoke", "fenced-handle"])
def test_tlc_finds_the_accepted_publication_gone_without_the_rule(checker: tlc.Checker, name: str) -> None:
    verdict = checker.check(case(name))
    told = list(story.tell(verdict.trace))
    assert verdict.violated in {"NeverLost", "NeverBuried"}
    assert any("Conductor accepts" in line.did for line in told)
