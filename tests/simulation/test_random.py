"""Thousands of random schedules, most of them with several workflows: rules hold, schedules differ, a seed repeats one."""

import functools

import pytest
from simulation import explore
from simulation.checking import assert_rules_hold
from simulation.world import Rules, World

PART = 2000


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.chaos)])
def test_rules_hold_in_random_schedules(part: int) -> None:
    seen = assert_rules_hold(explore.at_random(World, range(part * PART, (part + 1) * PART)))
    assert seen.schedules == PART
    assert seen.of_rivals > PART / 2
    assert seen.accepted > 0.9 * PART
    assert seen.ends >= {"completed", "stale", "revoked", "yielded", "too late", "elsewhere", "unknown"}


def test_same_seed_gives_the_same_schedule() -> None:
    for seed in range(40):
        first, second = (explore.run(World, explore.Random(seed)) for _ in range(2))
        assert first.world.log == second.world.log


def test_schedules_differ() -> None:
    logs = {tuple(done.world.log) for done in explore.at_random(World, range(300))}
    assert len(logs) > 250


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.chaos)])
def test_rules_hold_if_workers_send_requests_at_the_same_time(part: int) -> None:
    overlapping = functools.partial(World, rules=Rules(overlaps=True))
    seen = assert_rules_hold(explore.at_random(overlapping, range(part * PART, (part + 1) * PART)))
    assert seen.of_rivals > PART / 2
    assert seen.accepted > 0.9 * PART
    assert seen.ends >= {"completed", "stale", "revoked", "yielded", "too late", "elsewhere", "unknown"}
