"""One workflow under thousands of schedules, and every rule holds in each; that each can be had again, also by the command."""

from itertools import chain, islice

import pytest
from simulation import explore, run
from simulation.actors import WRITES, How
from simulation.checking import hold
from simulation.setup import one
from simulation.world import CONDUCTOR, World

READS = frozenset({"branch", "commit", "objects", "read", "snapshot", "workflow", "branches", "head", "task"})
WHIMS = {
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


@pytest.mark.parametrize("family", explore.OVERTAKING, ids=lambda family: family.name)
def test_three_preemptions_where_they_matter_most(family: explore.Family) -> None:
    seen = hold(explore.systematic(World, family, 3))
    assert seen.schedules > 300
    assert seen.ends >= {"completed", "stale"}


def test_one_mishap_anywhere_at_every_port_call_in_every_way() -> None:
    seen = hold(chain(*(explore.systematic(World, family, 1) for family in explore.ANYTHING)))
    assert seen.schedules > 2500
    assert seen.moves >= {(CONDUCTOR, whim) for whim in WHIMS}
    assert seen.moves >= {(verb, how) for verb in READS for how in (How.GO, How.CRASH, How.DOWN)}
    assert seen.moves >= {(verb, how) for verb in WRITES for how in How}


def test_without_bad_luck_every_step_is_accepted() -> None:
    done = explore.labelled(World, "anything/merge")
    assert [worker.outcome.reason for worker in done.world.workers.values() if worker.outcome] == [None, None]
    assert [entry.place for entry in done.world.oracle.line] == [(0, 0), (0, 1)]
    assert done.world.oracle.head == done.world.oracle.line[-1].commit


def test_after_a_crash_the_next_attempt_replaces_what_was_left_behind() -> None:
    world = World(one(1))
    world.move((CONDUCTOR, "hand out 1.1 adds"))
    while world.oracle.head == world.root:
        world.move((world.hub.order[-1], How.GO))
    world.move(("w1", How.CRASH))
    left = world.oracle.head
    world.move((CONDUCTOR, "give up 1.1"))
    world.move((CONDUCTOR, "hand out 1.1 adds"))
    while world.hub.order:
        world.move((world.hub.order[-1], How.GO))
    assert world.oracle.line[-1].commit == world.oracle.head != left
    assert left not in list(world.oracle.history(world.oracle.head))
    world.finish()


def test_a_label_is_the_same_schedule_every_time() -> None:
    for done in islice(explore.systematic(World, explore.ANYTHING[1], 2), 500, 540):
        again = explore.labelled(World, done.name.removeprefix("--schedule "))
        assert again.world.told == done.world.told


def test_the_command_replays_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--seed", "3", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "hands out w1" in shown
    assert run.main(["--seed", "3", "--show"]) == 0
    assert capsys.readouterr().out == shown


def test_the_command_runs_as_many_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--schedules", "30", "--first-seed", "1"]) == 0
    assert "30 schedules in" in capsys.readouterr().out
    assert run.main(["--minutes", "0.001"]) == 0


def test_the_command_tells_what_broke_and_how_to_have_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Without revocation: the first attempt stops with its publish request made up, and wakes up after its successor."""
    assert run.main(["--schedules", "2000", "--first-seed", "0", "--without", "revoke"]) == 1
    said = capsys.readouterr().out
    again = next(line for line in said.splitlines() if line.startswith("to have it again: "))
    assert "broken: an accepted publication stays visible" in said
    assert run.main([*again.removeprefix("to have it again: ").split(), "--without", "revoke"]) == 1
    assert run.main(again.removeprefix("to have it again: ").split()) == 0
