"""One workflow under thousands of schedules: every rule holds, and each schedule can be repeated, also by the command."""

from itertools import chain, islice

import pytest
from simulation import explore, run
from simulation.actors import WRITES, CallOutcome
from simulation.checking import assert_rules_hold
from simulation.setup import one
from simulation.world import CONDUCTOR, World

READS = frozenset({"branch", "commit", "objects", "read", "snapshot", "workflow", "branches", "head", "task"})
INTERVENTIONS = {
    *(
        "collect",
        "give up 1.1",
        "give up 1.2",
        "rerun 1.1",
        "rerun 1.2",
        "hand back 1.1",
        "hand back 1.2",
        "restart 1",
        "skip 1.1",
    ),
    *("pause 1", "terminate 1"),
}


FEW_SCHEDULES = [family for family in explore.OVERTAKING if family.name in {"overtaking/merge", "overtaking/no-op"}]
"""The other families have thousands of schedules with three preemptions."""


@pytest.mark.parametrize("family", explore.OVERTAKING, ids=lambda family: family.name)
def test_rules_hold_with_two_preemptions_at_critical_calls(family: explore.Family) -> None:
    seen = assert_rules_hold(explore.systematic(World, family, 2))
    assert seen.schedules > 40
    assert seen.ends >= {"completed", "stale"}


@pytest.mark.parametrize(
    ("family", "every"),
    [
        *(pytest.param(family, 4, id=f"{family.name}, a fourth") for family in FEW_SCHEDULES),
        *(pytest.param(family, 1, id=f"{family.name}, all", marks=pytest.mark.chaos) for family in explore.OVERTAKING),
    ],
)
def test_rules_hold_with_three_preemptions_at_critical_calls(family: explore.Family, every: int) -> None:
    seen = assert_rules_hold(explore.systematic(World, family, 3, every=every))
    assert seen.schedules > 0.9 * 500 / every
    assert seen.ends >= {"completed", "stale"}


def test_rules_hold_after_any_single_deviation() -> None:
    seen = assert_rules_hold(chain(*(explore.systematic(World, family, 1) for family in explore.ANYTHING)))
    assert seen.schedules > 2500
    assert seen.moves >= {(CONDUCTOR, intervention) for intervention in INTERVENTIONS}
    assert seen.moves >= {(verb, how) for verb in READS for how in (CallOutcome.GO, CallOutcome.CRASH, CallOutcome.DOWN)}
    assert seen.moves >= {(verb, how) for verb in WRITES for how in CallOutcome}


def test_without_faults_every_step_is_accepted() -> None:
    done = explore.labelled(World, "anything/merge")
    assert [worker.outcome.reason for worker in done.world.workers.values() if worker.outcome] == [None, None]
    assert [entry.place for entry in done.world.oracle.accepted_results] == [(0, 0), (0, 1)]
    assert done.world.oracle.head == done.world.oracle.accepted_results[-1].commit


def test_next_attempt_replaces_the_publication_of_a_crashed_one() -> None:
    world = World(one(1))
    world.move((CONDUCTOR, "hand out 1.1 adds"))
    while world.oracle.head == world.root:
        world.move((world.hub.order[-1], CallOutcome.GO))
    world.move(("w1", CallOutcome.CRASH))
    left = world.oracle.head
    world.move((CONDUCTOR, "give up 1.1"))
    world.move((CONDUCTOR, "hand out 1.1 adds"))
    while world.hub.order:
        world.move((world.hub.order[-1], CallOutcome.GO))
    assert world.oracle.accepted_results[-1].commit == world.oracle.head != left
    assert left not in list(world.oracle.history(world.oracle.head))
    world.finish()


def test_same_label_gives_the_same_schedule() -> None:
    for done in islice(explore.systematic(World, explore.OVERTAKING[0], 2), 50, 90):
        again = explore.labelled(World, done.name.removeprefix("--schedule "))
        assert again.world.log == done.world.log


def test_the_command_replays_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--seed", "3", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "hands out w1" in shown
    assert run.main(["--seed", "3", "--show"]) == 0
    assert capsys.readouterr().out == shown


def test_the_command_runs_the_given_number_of_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--schedules", "30", "--first-seed", "1"]) == 0
    assert "30 schedules in" in capsys.readouterr().out
    assert run.main(["--minutes", "0.001"]) == 0


def test_the_command_prints_the_violation_and_how_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Without revocation: the first attempt stops before its publish request and sends it after its successor has published."""
    assert run.main(["--schedules", "2000", "--first-seed", "0", "--without", "revoke"]) == 1
    said = capsys.readouterr().out
    again = next(line for line in said.splitlines() if line.startswith("to repeat it: "))
    assert "broken: an accepted publication stays visible" in said
    assert run.main([*again.removeprefix("to repeat it: ").split(), "--without", "revoke"]) == 1
    assert run.main(again.removeprefix("to repeat it: ").split()) == 0
