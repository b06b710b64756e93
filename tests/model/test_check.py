import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from model import cases, check, story, tlc

from perago.process.stop_request import StopRequest
from perago.provision.artifact_cache import ArtifactCache, default_root
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
/\\ hand = <<>>
/\\ out = <<99, 99>>
/\\ request = <<[state |-> "none", op |-> "none"]>>

State 2: <Stage line 1, col 2 to line 3, col 4 of module Publication>
/\\ head = 11
/\\ pc = <<"list", "idle">>
/\\ onto = <<0, 99>>
/\\ input = <<0, 0>>
/\\ todo = <<{}, {1, 2}>>
/\\ hand = <<>>
/\\ out = <<99, 99>>
/\\ request = << [state |-> "sent",
   op |-> "merge"] >>

46757 states generated, 19048 distinct states found, 4913 states left on queue.
"""


@pytest.fixture(scope="module")
def checker() -> Iterator[tlc.Checker]:
    stop_request = StopRequest()
    with pytest.MonkeyPatch.context() as patch:
        # These cases are small: the second compiler would take longer than it saves.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield tlc.install(ArtifactCache(default_root(), stop_request, quiet))
    stop_request.close()


def case(name: str) -> cases.Case:
    return next(one for one in cases.cases() if one.name == name)


def test_a_violation_is_read_with_its_states() -> None:
    verdict = tlc.parse(VIOLATION, 1.0)
    assert (verdict.violated, verdict.states, verdict.holds) == ("NeverLost", 19048, False)
    assert [moment.action for moment in verdict.trace] == ["Initial", "Stage"]
    assert verdict.trace[0].state["todo"] == [[], [1, 2]]
    assert verdict.trace[1].state["request"] == [{"state": "sent", "op": "merge"}]


def test_a_step_is_described_with_the_history_of_the_target() -> None:
    lines = list(story.describe(tlc.parse(VIOLATION, 1.0).trace))
    assert lines == [story.Line("execution 1", "stages its change on a branch of its own", "A → M1")]


def test_output_without_a_verdict_is_an_error() -> None:
    with pytest.raises(tlc.CheckerError, match="no verdict"):
        tlc.parse("Error: Parsing or semantic analysis failed.", 1.0)


def test_rules_and_invariants_of_every_case_exist_in_the_model() -> None:
    text = Path(tlc.SPECIFICATION).read_text()
    for one in cases.cases():
        assert all(f'"{name}"' in text for name in (*one.off, *one.world))
        assert all(f"\n{name} ==" in text for name in one.invariants)
        assert set(one.invariants) <= set(check._BROKEN)


def test_every_rule_of_the_model_has_a_case_without_it() -> None:
    rules = re.search(r"^Rules == \{(.*?)\}", Path(tlc.SPECIFICATION).read_text(), re.MULTILINE | re.DOTALL)
    assert rules is not None
    missed = [one.off for one in cases.cases() if one.group is cases.Group.RULE and not one.holds]
    assert sorted(missed) == sorted((name,) for name in re.findall(r'"([^"]+)"', rules[1]))


def test_names_of_cases_are_unique() -> None:
    names = [one.name for one in cases.cases()]
    assert len(names) == len(set(names))


def test_depth_adds_executions_where_the_protocol_has_to_hold() -> None:
    usual, deeper = cases.cases(), cases.cases(1)
    assert all(new.slots - old.slots == (old.holds and old.grows) for old, new in zip(usual, deeper, strict=True))
    assert any(old.holds and old.grows for old in usual)


@pytest.mark.parametrize("lanes", [1, 2])
def test_tlc_finds_the_protocol_safe_for_two_executions(checker: tlc.Checker, lanes: int) -> None:
    small = cases.Case("small", cases.Group.PROTOCOL, "", holds=True, slots=2, lanes=lanes, invariants=cases.SAFE)
    verdict = checker.check(small)
    assert verdict.holds
    assert verdict.states > 100


@pytest.mark.parametrize(
    ("name", "broken", "action"),
    [
        ("verify-abandoned", "NeverLost", "is going to remove it"),
        ("verify", "OnItsInput", "commits H1 to the target"),
        ("restore-peers", "Restored", "announces the restoration"),
    ],
)
def test_tlc_finds_the_failure_without_the_rule(checker: tlc.Checker, name: str, broken: str, action: str) -> None:
    verdict = checker.check(case(name))
    lines = list(story.describe(verdict.trace))
    assert verdict.violated == broken
    assert any("Conductor accepts" in line.did for line in lines)
    assert any(action in line.did for line in lines)
