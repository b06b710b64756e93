"""Which schedules are run: at random by seed, all with few deviations from the plain one, and a failing one made short."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation.actors import How
from tests.simulation.oracle import Broken
from tests.simulation.world import ABANDON, CONDUCTOR, GIVE_UP, HAND_OUT, Move, World

Worlds = Callable[[int], World]
"""A world whose workflows have so many steps."""
LONGEST = 600
"""Moves in a schedule; none comes near."""
PLAIN, HOT = 1, 6
_HOT = frozenset({"create_branch", "branches", "head", "merge", "relocate", "report"})
"""Where being overtaken matters most."""


class Chooser(Protocol):
    @property
    def steps(self) -> int: ...

    def choose(self, world: World) -> Move | None:
        """What happens next; None ends the schedule."""
        ...


@dataclass
class Run:
    """One schedule: what happened, and the rule it broke, if it did. `name` is how to have it again."""

    name: str
    world: World
    moves: list[Move] = field(default_factory=list[Move])
    broken: Broken | None = None


def run(worlds: Worlds, chooser: Chooser, name: str = "") -> Run:
    done = Run(name, worlds(chooser.steps))
    world, moves = done.world, done.moves
    try:
        while len(moves) < LONGEST and (move := chooser.choose(world)) is not None:
            moves.append(move)
            world.move(move)
        world.finish()
    except Broken as broken:
        done.broken = broken
    finally:
        world.hub.crash_all()
    if len(moves) == LONGEST:
        raise AssertionError("a schedule does not end")
    return done


# at random


class Random:
    """By seed. Some schedules switch often and some seldom, some break much and some nothing; some only overtake."""

    def __init__(self, seed: int) -> None:
        self._dice = dice = random.Random(seed)
        self.steps = dice.choice((1, 2, 2))
        self._switch = dice.choice((0.01, 0.03, 0.1, 0.5))
        self._fault = dice.choice((0.0, 0.01, 0.04))
        self._whim = dice.choice((0.01, 0.03, 0.1))
        self._only_overtakes = dice.random() < 0.3
        self._overtake = dice.choice((0.1, 0.2, 0.3))
        self._bodies = dice.choice(((1, 0, 0, 0, 0, 0), (2, 1, 0, 0, 0, 0), (2, 2, 1, 1, 1, 1)))

    def choose(self, world: World) -> Move | None:
        dice = self._dice
        if not world.workers and world.whims() and dice.random() < 0.3:
            return ABANDON
        hand_outs = world.hand_outs()
        if hand_outs and dice.random() < 0.8:
            return dice.choices(hand_outs, self._bodies)[0]
        actors = world.hub.can_move()
        if not actors:
            return next(iter(hand_outs or _given_up(world)), None)
        if self._only_overtakes:
            return self._overtaking(world)
        heat = HOT if world.hub.verb_of(actors[0][0]) in _HOT else PLAIN
        if dice.random() < self._whim * heat and (whims := world.whims()):
            return GIVE_UP if GIVE_UP in whims and dice.random() < 0.5 else dice.choice(whims)
        return self._of(actors, heat)

    def _overtaking(self, world: World) -> Move:
        plain, *others = overtaking(world)
        return self._dice.choice(others) if others and self._dice.random() < self._overtake else plain

    def _of(self, actors: list[tuple[str, tuple[How, ...]]], heat: int) -> Move:
        dice = self._dice
        if dice.random() < self._fault:
            who, hows = dice.choice(actors)
            return who, dice.choice(hows)
        able = [who for who, hows in actors if How.GO in hows]
        return (dice.choice(able) if dice.random() < self._switch * heat else able[0]), How.GO


def at_random(worlds: Worlds, seeds: Iterable[int]) -> Iterator[Run]:
    return (run(worlds, Random(seed), f"--seed {seed}") for seed in seeds)


# systematically


def anything(world: World) -> list[Move]:
    """Every other actor's move, every fault of those in front, every whim."""
    actors = world.hub.can_move()
    others = [(who, How.GO) for who, hows in actors if How.GO in hows]
    faults = [(who, how) for who, hows in actors[:2] for how in hows if how is not How.GO]
    moves = world.hand_outs()[:2] + others
    return moves + faults + world.whims() if moves else _given_up(world)


def overtaking(world: World) -> list[Move]:
    """Where it matters most: another actor goes on, or Conductor gives the attempt up."""
    actors = world.hub.can_move()
    able = [who for who, hows in actors if How.GO in hows]
    plain: list[Move] = world.hand_outs()[:1] or [(who, How.GO) for who in able[:1]] or _given_up(world)
    if not able or world.hub.verb_of(able[0]) not in _HOT:
        return plain
    others: list[Move] = [(who, How.GO) for who in able if (who, How.GO) != plain[0]]
    return plain + others + [whim for whim in world.whims() if whim == GIVE_UP]


def _given_up(world: World) -> list[Move]:
    """When everybody is dead, the timeout comes."""
    return [GIVE_UP] if GIVE_UP in world.whims() else []


Deviations = tuple[tuple[int, int], ...]
"""At which step of the schedule which alternative is taken."""


@dataclass(frozen=True, slots=True)
class Family:
    """Schedules with so many steps of a workflow and an opening, that then deviate here and there from what happens by itself."""

    name: str
    steps: int
    opening: tuple[Move, ...]
    alternatives: Callable[[World], list[Move]]

    def label(self, deviations: Deviations) -> str:
        return "/".join([self.name, *(f"{step}.{choice}" for step, choice in deviations)])


@dataclass
class Deviating:
    """The plain schedule, in which whoever came last goes on to its end, but for some moves: step number and alternative."""

    family: Family
    deviations: Deviations
    widths: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.steps = self.family.steps
        self._opening, self._at = list(self.family.opening), dict(self.deviations)

    def choose(self, world: World) -> Move | None:
        if self._opening:
            return self._opening.pop(0)
        moves = self.family.alternatives(world)
        if not moves:
            return None
        choice = self._at.get(len(self.widths), 0)
        self.widths.append(len(moves))
        return moves[choice]


def systematic(worlds: Worlds, family: Family, depth: int) -> Iterator[Run]:
    """All with at most `depth` deviations, those with fewer first."""
    for number in range(depth + 1):
        yield from _deviating(worlds, family, (), number)


def _deviating(worlds: Worlds, family: Family, deviations: Deviations, more: int) -> Iterator[Run]:
    """All that deviate like this and in so many later places. What can be done there is known only once it was run that far."""
    chooser = Deviating(family, deviations)
    done = run(worlds, chooser, f"--schedule {family.label(deviations)}")
    if not more:
        yield done
        return
    first = deviations[-1][0] + 1 if deviations else 0
    for step in range(first, len(chooser.widths)):
        for choice in range(1, chooser.widths[step]):
            yield from _deviating(worlds, family, (*deviations, (step, choice)), more - 1)


def _handed_out(body: str) -> Move:
    return CONDUCTOR, HAND_OUT + body


OPENINGS: dict[str, tuple[Move, ...]] = {
    "merge": (),
    "replacement": (ABANDON,),
    "no-op": (_handed_out("changes nothing"),),
    "no-op-relocation": (ABANDON, _handed_out("changes nothing")),
}
MORE_OPENINGS: dict[str, tuple[Move, ...]] = {
    **OPENINGS,
    "deletion": (_handed_out("deletes"),),
    "on-its-branch": (_handed_out("adds on its branch"),),
}
OVERTAKING = tuple(Family(f"overtaking/{name}", 1, opening, overtaking) for name, opening in OPENINGS.items())
LATER = tuple(Family(f"later/{name}", 2, opening, overtaking) for name, opening in OPENINGS.items())
ANYTHING = tuple(Family(f"anything/{name}", 2, opening, anything) for name, opening in MORE_OPENINGS.items())
FAMILIES = OVERTAKING + LATER + ANYTHING


def labelled(worlds: Worlds, label: str) -> Run:
    """The systematic schedule of that label again."""
    kind, opening, *deviations = label.split("/")
    family = next(family for family in FAMILIES if family.name == f"{kind}/{opening}")
    steps = ((int(step), int(choice)) for step, choice in (deviation.split(".") for deviation in deviations))
    return run(worlds, Deviating(family, tuple(steps)), f"--schedule {label}")


def mixed(worlds: Worlds, seeds: Iterable[int], families: Iterable[Family], depth: int) -> Iterator[Run]:
    """Random ones and families of schedules in turn, until the last of them has no more."""
    sources = [at_random(worlds, seeds), *(systematic(worlds, family, depth) for family in families)]
    while sources:
        for source in list(sources):
            if (done := next(source, None)) is None:
                sources.remove(source)
            else:
                yield done


# made short


class Following:
    """A list of moves; what is not possible when its turn comes is left out."""

    def __init__(self, steps: int, moves: Sequence[Move]) -> None:
        self.steps = steps
        self._moves = iter(moves)

    def choose(self, world: World) -> Move | None:
        possible = {*world.hand_outs(), *world.whims()}
        possible |= {(who, how) for who, hows in world.hub.can_move() for how in hows}
        return next((move for move in self._moves if move in possible), None)


def shortened(worlds: Worlds, failing: Run) -> Run:
    """Leave out moves, in ever smaller pieces, as long as the same rule is broken."""
    best, size = failing, max(1, len(failing.moves) // 2)
    while True:
        shorter = _shorter(worlds, best, size)
        if shorter is not None:
            best = shorter
        elif size == 1:
            return best
        else:
            size = size // 2


def _shorter(worlds: Worlds, best: Run, size: int) -> Run | None:
    for start in reversed(range(0, len(best.moves), size)):
        left = best.moves[:start] + best.moves[start + size :]
        again = run(worlds, Following(best.world.steps, left), best.name)
        same = again.broken is not None and best.broken is not None and again.broken.rule == best.broken.rule
        if same and len(again.moves) < len(best.moves):
            return again
    return None
