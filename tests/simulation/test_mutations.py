"""The simulation can fail: with any one rule of the protocol switched off, few schedules are needed to find a violation."""

from itertools import count, islice

import pytest
from simulation import explore, invariants
from simulation.mutations import FAULTS, REDUNDANT, RULES, Mutation
from simulation.world import World

WITHIN = 2000
LOST = {invariants.LOST, invariants.NOT_ON_INPUT}
BREAKS = {
    "order": {invariants.NO_WINNER},
    "one-order": {invariants.NO_WINNER},
    "verify-mend": {invariants.BY_HAND_LOST},
    "own-merge": {invariants.NOT_OWN},
    "restore": {invariants.NOT_RESTORED},
    "restore-interrupt": {invariants.NOT_RESTORED},
}
"""Invariants that break without the rule, where it is not a loss."""


def broken(mutation: Mutation) -> explore.ScheduleRun | None:
    runs = explore.mixed(mutation.world, count(), mutation.families, depth=3)
    return next((done for done in islice(runs, WITHIN) if done.broken is not None), None)


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_an_invariant_breaks(rule: str) -> None:
    mutation = RULES[rule]
    found = broken(mutation)
    assert found is not None, f"no violation in {WITHIN} schedules without {rule}"
    assert found.broken is not None
    assert found.broken.rule in BREAKS.get(rule, LOST)
    short = explore.shortened(mutation.world, found)
    assert short.broken is not None
    assert len(short.moves) <= len(found.moves)
    with_it = explore.run(World, explore.Replay(short.world.setting, short.moves))
    assert with_it.broken is None, "the rule makes no difference to this schedule"


@pytest.mark.parametrize("schedules", [200, pytest.param(WITHIN, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("name", REDUNDANT)
def test_without_a_redundant_rule_no_invariant_breaks(name: str, schedules: int) -> None:
    mutation = REDUNDANT[name]
    runs = islice(explore.mixed(mutation.world, count(), mutation.families, depth=3), schedules)
    assert [done.name for done in runs if done.broken is not None] == []


@pytest.mark.parametrize("rule", FAULTS)
def test_oracle_detects_each_fault(rule: str) -> None:
    runs = explore.mixed(FAULTS[rule], count(), explore.OVERTAKING + explore.ANYTHING, depth=3)
    found = next((done for done in islice(runs, WITHIN) if done.broken is not None), None)
    assert found is not None
    assert found.broken is not None
    assert found.broken.rule == rule
