"""Schedules with one deviation at any port call: faults, reruns, pauses, commits by hand, late reports, stale inputs."""

from itertools import chain

import pytest
from simulation import explore
from simulation.actors import WRITES, CallOutcome
from simulation.checking import assert_rules_hold
from simulation.explore import Family
from simulation.world import CONDUCTOR, World

READS = frozenset({"branch", "commit", "objects", "read", "snapshot", "workflow", "branches", "head", "task"})
INTERVENTIONS = {
    *("collect", "give up 1.1", "give up 2.1", "rerun 1.1", "hand back 1.1", "restart 1"),
    *("pause 1", "pause 2", "terminate 1", "terminate 2"),
}


def test_rules_hold_after_any_single_deviation() -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in explore.RIVALS_ANYTHING)))
    assert seen.of_rivals == seen.schedules > 4500
    assert seen.moves >= {(CONDUCTOR, intervention) for intervention in INTERVENTIONS}
    assert seen.moves >= {(verb, how) for verb in READS for how in (CallOutcome.GO, CallOutcome.CRASH, CallOutcome.DOWN)}
    assert seen.moves >= {(verb, how) for verb in WRITES - {"delete_objects"} for how in CallOutcome}
    assert seen.ends >= {"completed", "stale", "revoked", "too late", "in the way", "unknown"}


def test_rules_hold_with_a_stale_input() -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in explore.STALE)))
    assert seen.of_rivals == seen.schedules > 80
    assert seen.ends >= {"completed", "too late", "elsewhere"}


@pytest.mark.parametrize(("families", "end"), [(explore.HANDS, "undone"), (explore.HANDS_REFUSED, "kept")])
def test_rules_hold_with_a_commit_by_hand(families: tuple[Family, ...], end: str) -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in families)))
    assert seen.schedules > 150
    assert {who for who, _ in seen.moves} >= {CONDUCTOR, "relocate", "merge"}
    assert seen.ends >= {"completed", "undone", end}


def test_rules_hold_for_the_lanes_of_a_fork() -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in explore.LANES)))
    assert seen.schedules > 80
    assert seen.ends >= {"completed", "too late"}


def test_rules_hold_between_the_reads_of_a_task_and_its_workflow() -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in explore.BETWEEN_READS)))
    assert seen.of_rivals == seen.schedules > 500
    assert seen.ends >= {"completed", "too late", "in the way"}


@pytest.mark.parametrize("families", [explore.LATE_ONE, explore.LATE_OF_TWO, explore.LATE[-1:], explore.RESTORING])
def test_a_commit_that_was_accepted_late_is_put_back(families: tuple[Family, ...]) -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in families)))
    assert seen.schedules > 40
    assert "completed" in seen.ends
