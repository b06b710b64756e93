"""Schedules with one deviation at any port call: faults, reruns, pauses, commits by hand, late reports, stale inputs."""

from collections.abc import Iterable, Iterator
from itertools import chain

import pytest
from simulation import explore
from simulation.actors import WRITES, CallOutcome
from simulation.checking import assert_rules_hold
from simulation.explore import Family, ScheduleRun
from simulation.world import CONDUCTOR, World

READS = frozenset({"branch", "commit", "objects", "read", "snapshot", "workflow", "branches", "head", "task"})
INTERVENTIONS = {
    *("collect", "give up 1.1", "give up 2.1", "rerun 1.1", "hand back 1.1", "restart 1"),
    *("pause 1", "pause 2", "terminate 1", "terminate 2"),
}


BOTH_KINDS = {"rivals-anything/writers", "rivals-anything/no-op-first"}
"""Openings in which attempts merge, relocate, change nothing and revoke each other; `make chaos` adds the others."""


def deviating(families: Iterable[Family]) -> Iterator[ScheduleRun]:
    return chain.from_iterable(explore.systematic(World, family, 1) for family in families)


def test_rules_hold_after_any_single_deviation() -> None:
    seen = assert_rules_hold(deviating(family for family in explore.RIVALS_ANYTHING if family.name in BOTH_KINDS))
    assert seen.of_rivals == seen.schedules > 1800
    assert seen.moves >= {(CONDUCTOR, intervention) for intervention in INTERVENTIONS}
    assert seen.moves >= {(verb, how) for verb in READS for how in (CallOutcome.GO, CallOutcome.CRASH, CallOutcome.DOWN)}
    assert seen.moves >= {(verb, how) for verb in WRITES - {"delete_objects"} for how in CallOutcome}
    assert seen.ends >= {"completed", "stale", "revoked", "too late", "in the way", "unknown"}


@pytest.mark.chaos
def test_rules_hold_after_any_single_deviation_with_other_openings() -> None:
    seen = assert_rules_hold(deviating(family for family in explore.RIVALS_ANYTHING if family.name not in BOTH_KINDS))
    assert seen.of_rivals == seen.schedules > 3000


def test_rules_hold_with_a_stale_input() -> None:
    seen = assert_rules_hold(deviating(explore.STALE))
    assert seen.of_rivals == seen.schedules > 80
    assert seen.ends >= {"completed", "too late", "elsewhere"}


@pytest.mark.parametrize(("families", "end"), [(explore.HANDS, "undone"), (explore.HANDS_REFUSED, "kept")])
def test_rules_hold_with_a_commit_by_hand(families: tuple[Family, ...], end: str) -> None:
    seen = assert_rules_hold(deviating(families))
    assert seen.schedules > 150
    assert {who for who, _ in seen.moves} >= {CONDUCTOR, "relocate", "merge"}
    assert seen.ends >= {"completed", "undone", end}


def test_rules_hold_for_the_lanes_of_a_fork() -> None:
    seen = assert_rules_hold(deviating(explore.LANES))
    assert seen.schedules > 80
    assert seen.ends >= {"completed", "too late"}


def test_rules_hold_between_the_reads_of_a_task_and_its_workflow() -> None:
    seen = assert_rules_hold(deviating(explore.BETWEEN_READS))
    assert seen.of_rivals == seen.schedules > 500
    assert seen.ends >= {"completed", "too late", "in the way"}


@pytest.mark.parametrize(
    "families",
    [
        pytest.param(explore.LATE_ONE, id="one"),
        pytest.param(explore.LATE_OF_TWO[-1:], id="two, accepted"),
        pytest.param(explore.LATE_OF_TWO[:-1], id="two", marks=pytest.mark.chaos),
        pytest.param(explore.LATE[-1:], id="steps"),
        pytest.param(explore.RESTORING, id="restoring"),
    ],
)
def test_a_commit_that_was_accepted_late_is_put_back(families: tuple[Family, ...]) -> None:
    seen = assert_rules_hold(deviating(families))
    assert seen.schedules > 40
    assert "completed" in seen.ends
