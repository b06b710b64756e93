"""The simulation bites: with any one rule of the protocol switched off, few schedules are needed to see what it is for."""

from itertools import count, islice

import pytest
from tests.simulation import explore
from tests.simulation.mutations import FAULTS, RULES
from tests.simulation.world import World

WITHIN = 5000
LOST = {"an accepted publication stays visible", "an accepted publication is directly on its input"}


def first_broken(worlds: explore.Worlds) -> explore.Run | None:
    runs = explore.mixed(worlds, count(), explore.OVERTAKING + explore.ANYTHING, depth=3)
    return next((done for done in islice(runs, WITHIN) if done.broken is not None), None)


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_an_accepted_publication_is_lost(rule: str) -> None:
    found = first_broken(RULES[rule])
    assert found is not None, f"{WITHIN} schedules do without: {rule}"
    assert found.broken is not None
    assert found.broken.rule in LOST
    short = explore.shortened(RULES[rule], found)
    assert short.broken is not None
    assert len(short.moves) <= len(found.moves)
    with_it = explore.run(World, explore.Following(short.world.steps, short.moves))
    assert with_it.broken is None, "the rule makes no difference to this schedule"


@pytest.mark.parametrize("rule", FAULTS)
def test_whatever_the_oracle_looks_for_is_found(rule: str) -> None:
    found = first_broken(FAULTS[rule])
    assert found is not None
    assert found.broken is not None
    assert found.broken.rule == rule
