"""Thousands of schedules by seed, most of them about several workflows; that they differ, and that each can be had again."""

import pytest
from simulation import explore
from simulation.checking import hold
from simulation.world import World

PART = 2000


@pytest.mark.parametrize("part", range(2))
def test_at_random(part: int) -> None:
    seen = hold(explore.at_random(World, range(part * PART, (part + 1) * PART)))
    assert seen.schedules == PART
    assert seen.of_rivals > PART / 2
    assert seen.accepted > 0.9 * PART
    assert seen.ends >= {"completed", "stale", "revoked", "yielded", "too late", "elsewhere", "unknown"}


def test_a_seed_is_the_same_schedule_every_time() -> None:
    for seed in range(40):
        first, second = (explore.run(World, explore.Random(seed)) for _ in range(2))
        assert first.world.told == second.world.told


def test_schedules_differ() -> None:
    told = {tuple(done.world.told) for done in explore.at_random(World, range(300))}
    assert len(told) > 250
