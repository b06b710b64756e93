"""More than ten thousand schedules, and every rule holds in each; that they are what they claim; that each can be had again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice

import pytest
from tests.simulation import explore, run, story
from tests.simulation.actors import WRITES, How
from tests.simulation.world import CONDUCTOR, World

READS = frozenset({"commit", "objects", "read", "snapshot", "branches", "head", "uncommitted", "task"})
WHIMS = {"collect", "give up", "rerun", "rerun from the first step", "hand back", "restart", "skip"}


def hold(runs: Iterable[explore.Run]) -> "Seen":
    """Every rule, in every one of them."""
    seen = Seen()
    for done in runs:
        assert done.broken is None, _told(done)
        seen.schedules += 1
        seen.accepted += len(done.world.oracle.line)
        seen.moves |= {(told.verb or CONDUCTOR, told.what) for told in done.world.told}
        seen.ends |= {_end(worker.outcome.reason) for worker in done.world.workers.values() if worker.outcome}
    return seen


@dataclass
class Seen:
    schedules: int = 0
    accepted: int = 0
    moves: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    ends: set[str] = field(default_factory=set[str])


@pytest.mark.parametrize("family", explore.OVERTAKING, ids=lambda family: family.name)
def test_three_preemptions_where_they_matter_most(family: explore.Family) -> None:
    seen = hold(explore.systematic(World, family, 3))
    assert seen.schedules > 500
    assert seen.ends >= {"completed", "stale"}


def test_one_mishap_anywhere_at_every_port_call_in_every_way() -> None:
    seen = hold(chain(*(explore.systematic(World, family, 1) for family in explore.ANYTHING)))
    assert seen.schedules > 1900
    assert seen.moves >= {(CONDUCTOR, whim) for whim in WHIMS}
    assert seen.moves >= {(verb, how) for verb in READS for how in (How.GO, How.CRASH, How.DOWN)}
    assert seen.moves >= {(verb, how) for verb in WRITES for how in How}


@pytest.mark.parametrize("part", range(4))
def test_at_random(part: int) -> None:
    seen = hold(explore.at_random(World, range(part * 600, (part + 1) * 600)))
    assert seen.schedules == 600
    assert seen.accepted > seen.schedules
    assert seen.ends >= {"completed", "stale", "revoked", "refused", "unknown"}


def _end(reason: str | None) -> str:
    words = {
        "Conductor no longer wants": "stale",
        "took this one's right": "revoked",
        "neither the input commit": "refused",
        "the publish request": "unknown",
    }
    return "completed" if reason is None else next((end for said, end in words.items() if said in reason), "failed")


def _told(done: explore.Run) -> str:
    short = explore.shortened(World, done)
    lines = (f"make simulate ARGS='{done.name}': {done.broken}", f"made short ({len(short.moves)} moves):")
    return "\n".join(chain(lines, story.tell(short)))


def test_without_bad_luck_every_step_is_accepted() -> None:
    done = explore.labelled(World, "anything/merge")
    assert [worker.outcome.reason for worker in done.world.workers.values() if worker.outcome] == [None, None]
    assert [entry.place for entry in done.world.oracle.line] == [(0, 0), (0, 1)]
    assert done.world.oracle.head == done.world.oracle.base


def test_after_a_crash_the_next_attempt_replaces_what_was_left_behind() -> None:
    """In the plain schedule moves 11 to 13 are: send the merge, carry it out, look at it. The first worker dies at the last."""
    world = World(steps=1)
    world.move((CONDUCTOR, "hand out adds"))
    while world.oracle.head == world.root:
        world.move((world.hub.order[-1], How.GO))
    world.move(("w1", How.CRASH))
    left = world.oracle.head
    world.move((CONDUCTOR, "give up"))
    world.move((CONDUCTOR, "hand out adds"))
    while world.hub.order:
        world.move((world.hub.order[-1], How.GO))
    assert world.oracle.base == world.oracle.head != left
    assert left not in list(world.oracle.history(world.oracle.head))
    world.finish()


def test_a_seed_is_the_same_schedule_every_time() -> None:
    for seed in range(40):
        first, second = (explore.run(World, explore.Random(seed)) for _ in range(2))
        assert first.world.told == second.world.told


def test_a_label_is_the_same_schedule_every_time() -> None:
    for done in islice(explore.systematic(World, explore.ANYTHING[1], 2), 500, 540):
        again = explore.labelled(World, done.name.removeprefix("--schedule "))
        assert again.world.told == done.world.told


def test_schedules_differ() -> None:
    told = {tuple(done.world.told) for done in explore.at_random(World, range(300))}
    assert len(told) > 250


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
