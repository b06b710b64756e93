"""Which schedules are run: at random by seed, all with few deviations from the plain one, and a failing one made short."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from simulation import setup as settings
from simulation.actors import How
from simulation.invariants import RuleBroken
from simulation.setup import Setting
from simulation.world import ABANDON, BY_HAND, CONDUCTOR, FROM_HEAD, GIVE_UP, HAND_OUT, START, Move, World

Worlds = Callable[[Setting], World]
LONGEST = 1000
"""Moves in a schedule; none comes near."""
PLAIN, HOT = 1, 6
_HOT = frozenset({"create_branch", "branches", "interrupt_updates", "head", "merge", "relocate", "report"})
"""Where being overtaken matters most."""


class Chooser(Protocol):
    @property
    def setting(self) -> Setting: ...

    def choose(self, world: World) -> Move | None:
        """What happens next; None ends the schedule."""
        ...


@dataclass
class ScheduleRun:
    """One schedule: what happened, and the rule it broke, if it did. `name` is how to have it again."""

    name: str
    world: World
    moves: list[Move] = field(default_factory=list[Move])
    broken: RuleBroken | None = None


def run(worlds: Worlds, chooser: Chooser, name: str = "") -> ScheduleRun:
    done = ScheduleRun(name, worlds(chooser.setting))
    world, moves = done.world, done.moves
    try:
        while len(moves) < LONGEST and (move := chooser.choose(world)) is not None:
            moves.append(move)
            world.move(move)
        world.finish()
    except RuleBroken as broken:
        done.broken = broken
    finally:
        world.hub.crash_all()
    if len(moves) == LONGEST:
        raise AssertionError("a schedule does not end")
    return done


# at random

KINDS = 4
"""Seeds that it divides are about one workflow, all others about rivals."""


class Random:
    """By seed. Some schedules switch often and some seldom, some break much and some nothing; some only overtake."""

    def __init__(self, seed: int, setting: Setting | None = None) -> None:
        self._dice = dice = random.Random(seed)
        known = settings.RIVALS if seed % KINDS else settings.ALONE
        self.setting = dice.choice(list(known.values()))
        self.setting = setting or self.setting
        self._switch = dice.choice((0.01, 0.03, 0.1, 0.5))
        self._fault = dice.choice((0.0, 0.01, 0.04))
        self._whim = dice.choice((0.01, 0.03, 0.1))
        self._only_overtakes = dice.random() < 0.3
        self._overtake = dice.choice((0.1, 0.2, 0.3))
        self._bodies = dice.choice(((1, 0, 0, 0), (2, 1, 0, 0), (2, 2, 1, 1)))

    def choose(self, world: World) -> Move | None:
        actors = world.actors()
        begun = self._begun(world, is_idle=not actors)
        return begun if begun is not None or not actors else self._going_on(world, actors)

    def _begun(self, world: World, *, is_idle: bool) -> Move | None:
        """An attempt or a workflow: most often at once, and in any case when nothing else moves."""
        dice = self._dice
        if not world.workers and (whims := world.whims()) and dice.random() < 0.3:
            return whims[0]
        hand_outs = world.hand_outs()
        if hand_outs and dice.random() < 0.8:
            return self._handed_out(hand_outs)
        starts = world.starts()
        if starts and (is_idle or dice.random() < self._whim):
            return dice.choice(starts)
        if not is_idle:
            return None
        return self._handed_out(hand_outs) if hand_outs else next(iter(_given_up(world)), None)

    def _going_on(self, world: World, actors: list[tuple[str, tuple[How, ...]]]) -> Move:
        dice = self._dice
        if self._only_overtakes:
            return self._overtaking(world)
        heat = HOT if world.hub.verb_of(actors[0][0]) in _HOT else PLAIN
        if dice.random() < self._whim * heat and (whims := world.whims()):
            likely = [whim for whim in whims if whim[1].startswith(GIVE_UP) or whim == BY_HAND]
            return dice.choice(likely) if likely and dice.random() < 0.5 else dice.choice(whims)
        return self._of(actors, heat)

    def _handed_out(self, hand_outs: list[Move]) -> Move:
        """Plain writers most often."""
        dice = self._dice
        kinds = [["adds"], ["changes nothing"], ["overwrites", "deletes", "only deletes"], ["on its branch"]]
        wanted = dice.choices(kinds, self._bodies)[0]
        fitting = [move for move in hand_outs if move[1].endswith(tuple(wanted))]
        return dice.choice(fitting or hand_outs)

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


def at_random(worlds: Worlds, seeds: Iterable[int]) -> Iterator[ScheduleRun]:
    return (run(worlds, Random(seed), f"--seed {seed}") for seed in seeds)


# systematically


def anything(world: World) -> list[Move]:
    """Every other actor's move, every fault of those in front, every whim."""
    actors = world.actors()
    others = [(who, How.GO) for who, hows in actors if How.GO in hows]
    faults = [(who, how) for who, hows in actors[:2] for how in hows if how is not How.GO]
    moves = _offered(world)[:2] + others
    return moves + faults + world.starts() + world.whims() if moves else world.starts()[:1] or _given_up(world)


def overtaking(world: World) -> list[Move]:
    """Where it matters most: another actor goes on, Conductor gives an attempt up, a workflow begins, a person commits."""
    actors = world.actors()
    able = [who for who, hows in actors if How.GO in hows]
    offered = _offered(world)
    plain: list[Move] = offered[:1] or [(who, How.GO) for who in able[:1]] or world.starts()[:1] or _given_up(world)
    if not able or world.hub.verb_of(able[0]) not in _HOT:
        return plain
    others: list[Move] = [(who, How.GO) for who in able if (who, How.GO) != plain[0]]
    whims = [whim for whim in world.whims() if whim[1].startswith(GIVE_UP) or whim == BY_HAND]
    return plain + others + world.starts() + whims


def _offered(world: World) -> list[Move]:
    """The first task that waits, as one that changes something and as one that does not."""
    hand_outs = world.hand_outs()
    first = [move for move in hand_outs if move[1].startswith(hand_outs[0][1].partition(" adds")[0])]
    plain = [move for move in first if move[1].endswith(" adds")]
    return plain + [move for move in first if move[1].endswith(" changes nothing")]


def _given_up(world: World) -> list[Move]:
    """When everybody is dead, the timeout comes."""
    return [whim for whim in world.whims() if whim[1].startswith(GIVE_UP)][:1]


Deviations = tuple[tuple[int, int], ...]
"""At which step of the schedule which alternative is taken."""


@dataclass(frozen=True, slots=True)
class Until:
    """An actor goes on until it is about to make a call."""

    who: str
    verb: str


Opening = tuple[Move | Until, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Schedules in a setting and with an opening, that then deviate here and there from what happens by itself."""

    name: str
    setting: Setting
    opening: Opening
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
        self.setting = self.family.setting
        self._opening, self._at = list(self.family.opening), dict(self.deviations)

    def choose(self, world: World) -> Move | None:
        while self._opening:
            if (move := self._opened(world)) is not None:
                return move
        moves = self.family.alternatives(world)
        if not moves:
            return None
        choice = self._at.get(len(self.widths), 0)
        self.widths.append(len(moves))
        return moves[choice]

    def _opened(self, world: World) -> Move | None:
        first = self._opening[0]
        if isinstance(first, Until) and world.hub.verb_of(first.who) != first.verb:
            request = world.hub.actors[first.who].waits_for
            return (first.who if request is None else request.name), How.GO
        self._opening.pop(0)
        return None if isinstance(first, Until) else first


def systematic(worlds: Worlds, family: Family, depth: int) -> Iterator[ScheduleRun]:
    """All with at most `depth` deviations, those with fewer first."""
    for number in range(depth + 1):
        yield from _deviating(worlds, family, (), number)


def _deviating(worlds: Worlds, family: Family, deviations: Deviations, more: int) -> Iterator[ScheduleRun]:
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


def _handed_out(step: str, body: str) -> Move:
    return CONDUCTOR, f"{HAND_OUT}{step} {body}"


def _begun(number: int, where: str) -> Move:
    return CONDUCTOR, f"{START}{number} {where}"


OPENINGS: dict[str, Opening] = {
    "merge": (),
    "replacement": (ABANDON,),
    "no-op": (_handed_out("1.1", "changes nothing"),),
    "no-op-relocation": (ABANDON, _handed_out("1.1", "changes nothing")),
}
MORE_OPENINGS: dict[str, Opening] = {
    **OPENINGS,
    "deletion": (_handed_out("1.1", "deletes"),),
    "on-its-branch": (_handed_out("1.1", "adds on its branch"),),
}
ONE, TWO_STEPS = settings.one(1), settings.one(2)
OVERTAKING = tuple(Family(f"overtaking/{name}", ONE, opening, overtaking) for name, opening in OPENINGS.items())
LATER = tuple(Family(f"later/{name}", TWO_STEPS, opening, overtaking) for name, opening in OPENINGS.items())
ANYTHING = tuple(Family(f"anything/{name}", TWO_STEPS, opening, anything) for name, opening in MORE_OPENINGS.items())

RIVAL_OPENINGS: dict[str, Opening] = {
    "writers": (_handed_out("1.1", "adds"), _handed_out("2.1", "adds")),
    "writers-on-abandoned": (ABANDON, _handed_out("1.1", "adds"), _handed_out("2.1", "adds")),
    "no-op-first": (ABANDON, _handed_out("1.1", "changes nothing"), _handed_out("2.1", "adds")),
    "no-op-second": (ABANDON, _handed_out("1.1", "adds"), _handed_out("2.1", "changes nothing")),
    "no-ops": (ABANDON, _handed_out("1.1", "changes nothing"), _handed_out("2.1", "changes nothing")),
    "the-same": (_handed_out("1.1", "only deletes"), _handed_out("2.1", "only deletes")),
}
LANE_OPENINGS: dict[str, Opening] = {
    "lanes": (_handed_out("1.1", "adds"), _handed_out("1.2", "adds")),
    "lanes-on-abandoned": (ABANDON, _handed_out("1.1", "changes nothing"), _handed_out("1.2", "adds")),
}


def _families(
    kind: str, setting: Setting, openings: dict[str, Opening], alternatives: Callable[[World], list[Move]]
) -> tuple[Family, ...]:
    return tuple(Family(f"{kind}/{name}", setting, opening, alternatives) for name, opening in openings.items())


RIVALS = _families("rivals", settings.TWO, RIVAL_OPENINGS, overtaking)
CALM_RIVALS = _families("calm", settings.CALM_TWO, RIVAL_OPENINGS, overtaking)
LANES = _families("lanes", settings.FORK, LANE_OPENINGS, overtaking)
CALM_LANES = _families("calm-lanes", settings.CALM_FORK, LANE_OPENINGS, overtaking)
RIVALS_ANYTHING = _families("rivals-anything", settings.TWO, RIVAL_OPENINGS, anything)
_WRITERS_ON_ABANDONED = RIVAL_OPENINGS["writers-on-abandoned"]
GUIDED_OPENINGS: dict[str, Opening] = {
    "about-to-list": (*_WRITERS_ON_ABANDONED, Until("w1", "branches"), Until("w2", "branches")),
    "late-handle": (*RIVAL_OPENINGS["no-op-first"], Until("w2", "relocate"), Until("w1", "create_branch")),
    "held": (*_WRITERS_ON_ABANDONED, Until("w2", "relocate"), ("w2", How.GO), Until("w1", "delete_branch")),
    "in-doubt": (
        *(*_WRITERS_ON_ABANDONED, Until("w2", "relocate"), ("w2", How.GO), ("w2", How.LOSE)),
        *(Until("w2", "head"), Until("w1", "relocate")),
    ),
    "lost-answer": (*RIVAL_OPENINGS["the-same"], Until("w2", "merge"), ("w2", How.LOSE)),
}
"""Just before it matters that each of two rivals is about to do something."""
GUIDED = _families("guided", settings.TWO, GUIDED_OPENINGS, overtaking)
_BETWEEN_READS: Opening = (
    *(*RIVAL_OPENINGS["writers"], Until("w2", "create_branch"), Until("w1", "report")),
    *(Until("w2", "task"), Until("w2", "workflow")),
)
"""w2 has read that the task of the head is unfinished, and is about to read its workflow."""
BETWEEN_READS = _families("between-reads", settings.TWO, {"about-to-report": _BETWEEN_READS}, anything)
STALE = _families("stale", settings.LATER, {"merge": (), "no-op": (_handed_out("1.1", "changes nothing"),)}, overtaking)
HAND_OPENINGS: dict[str, Opening] = {
    "merge": (),
    "met": (_handed_out("1.1", "adds"), Until("w1", "merge"), BY_HAND),
    "no-op": (_handed_out("1.1", "changes nothing"),),
    "undone": (
        *(_handed_out("1.1", "adds"), Until("w1", "merge"), BY_HAND, _begun(2, FROM_HEAD)),
        *(_handed_out("2.1", "adds"), Until("w2", "branches"), ("w2", How.GO), Until("w1", "create_branch")),
    ),
}
HANDS = _families("by-hand", settings.BY_HAND, HAND_OPENINGS, overtaking)
HANDS_REFUSED = _families("by-hand-refused", settings.BY_HAND_REFUSED, HAND_OPENINGS, overtaking)
_RERUN_BEFORE_THE_REPORT: Opening = (_handed_out("1.1", "adds"), Until("w1", "report"), (CONDUCTOR, "rerun 1.1"))
_LATE_OPENINGS: dict[str, Opening] = {
    "rerun": _RERUN_BEFORE_THE_REPORT,
    "displaced": (*_RERUN_BEFORE_THE_REPORT, _handed_out("1.1", "adds"), Until("w2", "delete_branch")),
}
_ACCEPTED_LATE: dict[str, Opening] = {"accepted": (*_LATE_OPENINGS["displaced"], ("w1", How.GO))}
"""w1's commit is accepted when w2's stands in its place."""
_UNDER_WAY: dict[str, Opening] = {
    "under-way": (
        *(*_RERUN_BEFORE_THE_REPORT, _handed_out("1.1", "adds"), Until("w2", "relocate")),
        *(("w2", How.GO), ("w2", How.LOSE), ("w1", How.GO)),
    )
}
"""w1's commit is accepted when w2 no longer waits for the request that will put its own in the place of that one."""
_NEXT_HAS_LISTED: dict[str, Opening] = {
    "next-has-listed": (
        *(*_ACCEPTED_LATE["accepted"], _handed_out("1.2", "adds"), Until("w3", "branches"), ("w3", How.GO)),
        Until("w1", "create_branch"),
    )
}
"""And w1 is about to put it back, when the next step is about to do so by its own publication."""
LATE = _families("late", settings.LATE_REPORTS, _LATE_OPENINGS | _NEXT_HAS_LISTED, anything)
LATE_ONE = _families("late-one", settings.LATE_REPORT, _LATE_OPENINGS | _ACCEPTED_LATE | _UNDER_WAY, anything)
LATE_OF_TWO = _families("late-of-two", settings.LATE_REPORTS_OF_TWO, _LATE_OPENINGS | _ACCEPTED_LATE, anything)
_OUTDATED: Opening = (
    *(_handed_out("1.1", "adds"), Until("w1", "snapshot"), (CONDUCTOR, "rerun 1.1")),
    *(_handed_out("1.1", "adds"), Until("w2", "report"), ("w2", How.GO), ("w2", How.GO)),
    *(Until("w1", "task"), ("w1", How.GO), (CONDUCTOR, "rerun 1.1")),
    *(_handed_out("1.1", "adds"), Until("w3", "report"), ("w3", How.GO), ("w3", How.GO)),
)
"""w1 has read that w2's commit was accepted, and is about to restore it; meanwhile a rerun replaces that commit."""
RESTORING = _families("restoring", ONE, {"outdated": _OUTDATED}, anything)
FAMILIES = (
    *(*OVERTAKING, *LATER, *ANYTHING, *RIVALS, *CALM_RIVALS, *LANES, *CALM_LANES, *RIVALS_ANYTHING),
    *(*GUIDED, *BETWEEN_READS, *RESTORING, *STALE, *HANDS, *HANDS_REFUSED, *LATE, *LATE_ONE, *LATE_OF_TWO),
)


def labelled(worlds: Worlds, label: str) -> ScheduleRun:
    """The systematic schedule of that label again."""
    kind, opening, *deviations = label.split("/")
    family = next(family for family in FAMILIES if family.name == f"{kind}/{opening}")
    steps = ((int(step), int(choice)) for step, choice in (deviation.split(".") for deviation in deviations))
    return run(worlds, Deviating(family, tuple(steps)), f"--schedule {label}")


def mixed(worlds: Worlds, seeds: Iterable[int], families: Iterable[Family], depth: int) -> Iterator[ScheduleRun]:
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

    def __init__(self, setting: Setting, moves: Sequence[Move]) -> None:
        self.setting = setting
        self._moves = iter(moves)

    def choose(self, world: World) -> Move | None:
        possible = {*world.hand_outs(), *world.starts(), *world.whims()}
        possible |= {(who, how) for who, hows in world.actors() for how in hows}
        return next((move for move in self._moves if move in possible), None)


def shortened(worlds: Worlds, failing: ScheduleRun) -> ScheduleRun:
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


def _shorter(worlds: Worlds, best: ScheduleRun, size: int) -> ScheduleRun | None:
    for start in reversed(range(0, len(best.moves), size)):
        left = best.moves[:start] + best.moves[start + size :]
        again = run(worlds, Following(best.world.setting, left), best.name)
        same = again.broken is not None and best.broken is not None and again.broken.rule == best.broken.rule
        if same and len(again.moves) < len(best.moves):
            return again
    return None
