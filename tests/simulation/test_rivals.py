"""Two workflows that publish to one branch and interrupt each other at every critical call: every rule holds."""

import pytest
from simulation import explore
from simulation.checking import assert_rules_hold
from simulation.explore import Family
from simulation.world import World

A_FOURTH_OR_ALL = [pytest.param(4, id="a fourth"), pytest.param(1, id="all", marks=pytest.mark.chaos)]
SCHEDULES = {
    "rivals/writers": 1000,
    "rivals/writers-on-abandoned": 1800,
    "rivals/no-op-first": 1800,
    "rivals/no-op-second": 1800,
    "rivals/no-ops": 1700,
    "rivals/the-same": 1000,
}
"""The least number of schedules of each family."""


@pytest.mark.parametrize("every", A_FOURTH_OR_ALL)
@pytest.mark.parametrize("family", explore.RIVALS, ids=lambda family: family.name)
def test_rules_hold_with_two_preemptions(family: Family, every: int) -> None:
    seen = assert_rules_hold(explore.systematic(World, family, 2, every=every))
    assert seen.of_rivals == seen.schedules >= 0.9 * SCHEDULES[family.name] / every
    assert seen.ends >= {"completed", "stale", "too late"}


@pytest.mark.parametrize("family", explore.GUIDED, ids=lambda family: family.name)
def test_rules_hold_with_one_preemption_in_a_critical_state(family: Family) -> None:
    seen = assert_rules_hold(explore.systematic(World, family, 1))
    assert seen.of_rivals == seen.schedules > 10
    assert "completed" in seen.ends


@pytest.mark.parametrize("family", [*explore.CALM_RIVALS, *explore.CALM_LANES], ids=lambda family: family.name)
def test_without_failures_one_of_two_is_accepted(family: Family) -> None:
    """In any order of moves. The oracle raises if none is accepted."""
    seen = assert_rules_hold(explore.systematic(World, family, 2))
    assert seen.accepted >= seen.schedules > 30
    assert not seen.ends & {"unknown", "failed"}
