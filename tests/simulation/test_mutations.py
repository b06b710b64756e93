"""The simulation bites: with any one rule of the protocol switched off, few schedules are needed to see what it is for."""

from itertools import count, islice

import pytest
from simulation import explore, invariants
from simulation.mutations import FAULTS, RULES, SPARE, Mutation
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
"""What else than a loss."""


def broken(mutation: Mutation) -> explore.ScheduleRun | None:
    runs = explore.mixed(mutation.world, count(), mutation.families, depth=3)
    return next((done for done in islice(runs, WITHIN) if done.broken is not None), None)


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_its_purpose_shows(rule: str) -> None:
    mutation = RULES[rule]
    found = broken(mutation)
    assert found is not None, f"{WITHIN} schedules do without: {rule}"
    assert found.broken is not None
    assert found.broken.rule in BREAKS.get(rule, LOST)
    short = explore.shortened(mutation.world, found)
    assert short.broken is not None
    assert len(short.moves) <= len(found.moves)
    with_it = explore.run(World, explore.Following(short.world.setting, short.moves))
    assert with_it.broken is None, "the rule makes no difference to this schedule"


@pytest.mark.parametrize("name", SPARE)
def test_what_only_helps_can_be_left_out(name: str) -> None:
    mutation = SPARE[name]
    runs = islice(explore.mixed(mutation.world, count(), mutation.families, depth=3), 500)
    assert [done.name for done in runs if done.broken is not None] == []


@pytest.mark.parametrize("rule", FAULTS)
def test_each_thing_that_the_oracle_looks_for_is_found(rule: str) -> None:
    runs = explore.mixed(FAULTS[rule], count(), explore.OVERTAKING + explore.ANYTHING, depth=3)
    found = next((done for done in islice(runs, WITHIN) if done.broken is not None), None)
    assert found is not None
    assert found.broken is not None
    assert found.broken.rule == rule
