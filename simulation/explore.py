"""Chooses schedules: random ones by seed, systematic ones with few deviations from a default; shortens a failing one."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from simulation import setup as settings
from simulation.actors import CallOutcome
from simulation.invariants import RuleBroken
from simulation.setup import Setting
from simulation.world import ABANDON, BY_HAND, CONDUCTOR, FROM_HEAD, GIVE_UP, HAND_OUT, START, Move, World

WorldFactory = Callable[[Setting], World]
LONGEST = 1000
"""The limit on the moves of a schedule; a schedule that reaches it is an error."""
NORMAL_WEIGHT, CRITICAL_WEIGHT = 1, 6
CRITICAL_VERBS = frozenset({"create_branch", "branches", "interrupt_updates", "head", "merge", "relocate", "report"})
"""Calls at which a move of another actor matters most."""


class Chooser(Protocol):
    @property
    def setting(self) -> Setting: ...

    def choose(self, world: World) -> Move | None:
        """The next move; None ends the schedule."""
        ...


@dataclass
class ScheduleRun:
    """One schedule: its moves, and the rule that it broke, if any. `name` holds the options that repeat it."""

    name: str
    world: World
    moves: list[Move] = field(default_factory=list[Move])
    broken: RuleBroken | None = None


def run(make_world: WorldFactory, chooser: Chooser, name: str = "") -> ScheduleRun:
    done = ScheduleRun(name, make_world(chooser.setting))
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


# random schedules

KINDS = 4
"""Every `KINDS`-th seed has a setting with one workflow, all others have a setting with rivals."""


class Random:
    """Chooses moves at random. The seed also sets how often it switches actors and how often faults and interventions occur."""

    def __init__(self, seed: int, setting: Setting | None = None) -> None:
        self._dice = dice = random.Random(seed)
        known = settings.RIVALS if seed % KINDS else settings.SINGLE_WORKFLOW
        self.setting = dice.choice(list(known.values()))
        self.setting = setting or self.setting
        self._switch = dice.choice((0.01, 0.03, 0.1, 0.5))
        self._fault = dice.choice((0.0, 0.01, 0.04))
        self._intervention = dice.choice((0.01, 0.03, 0.1))
        self._only_overtakes = dice.random() < 0.3
        self._overtake = dice.choice((0.1, 0.2, 0.3))
        self._bodies = dice.choice(((1, 0, 0, 0), (2, 1, 0, 0), (2, 2, 1, 1)))

    def choose(self, world: World) -> Move | None:
        actors = world.actors()
        begun = self._begun(world, is_idle=not actors)
        return begun if begun is not None or not actors else self._going_on(world, actors)

    def _begun(self, world: World, *, is_idle: bool) -> Move | None:
        """The start of an attempt or a workflow: usually as soon as possible, always if no actor can move."""
        dice = self._dice
        if not world.workers and (interventions := world.interventions()) and dice.random() < 0.3:
            return interventions[0]
        hand_outs = world.hand_outs()
        if hand_outs and dice.random() < 0.8:
            return self._handed_out(hand_outs)
        starts = world.starts()
        if starts and (is_idle or dice.random() < self._intervention):
            return dice.choice(starts)
        if not is_idle:
            return None
        return self._handed_out(hand_outs) if hand_outs else next(iter(_given_up(world)), None)

    def _going_on(self, world: World, actors: list[tuple[str, tuple[CallOutcome, ...]]]) -> Move:
        dice = self._dice
        if self._only_overtakes:
            return self._overtaking(world)
        weight = CRITICAL_WEIGHT if world.hub.verb_of(actors[0][0]) in CRITICAL_VERBS else NORMAL_WEIGHT
        if dice.random() < self._intervention * weight and (interventions := world.interventions()):
            likely = [
                intervention for intervention in interventions if intervention[1].startswith(GIVE_UP) or intervention == BY_HAND
            ]
            return dice.choice(likely) if likely and dice.random() < 0.5 else dice.choice(interventions)
        return self._of(actors, weight)

    def _handed_out(self, hand_outs: list[Move]) -> Move:
        """A hand-out with a random body; a body that adds a file is the most frequent one."""
        dice = self._dice
        kinds = [["adds"], ["changes nothing"], ["overwrites", "deletes", "only deletes"], ["on its branch"]]
        wanted = dice.choices(kinds, self._bodies)[0]
        fitting = [move for move in hand_outs if move[1].endswith(tuple(wanted))]
        return dice.choice(fitting or hand_outs)

    def _overtaking(self, world: World) -> Move:
        plain, *others = overtaking(world)
        return self._dice.choice(others) if others and self._dice.random() < self._overtake else plain

    def _of(self, actors: list[tuple[str, tuple[CallOutcome, ...]]], weight: int) -> Move:
        dice = self._dice
        if dice.random() < self._fault:
            who, outcomes = dice.choice(actors)
            return who, dice.choice(outcomes)
        able = [who for who, outcomes in actors if CallOutcome.GO in outcomes]
        return (dice.choice(able) if dice.random() < self._switch * weight else able[0]), CallOutcome.GO


def at_random(make_world: WorldFactory, seeds: Iterable[int]) -> Iterator[ScheduleRun]:
    return (run(make_world, Random(seed), f"--seed {seed}") for seed in seeds)


# systematic schedules


def anything(world: World) -> list[Move]:
    """All alternatives: the moves of all actors, the faults of the two that moved last, starts and interventions."""
    actors = world.actors()
    others = [(who, CallOutcome.GO) for who, outcomes in actors if CallOutcome.GO in outcomes]
    faults = [(who, how) for who, outcomes in actors[:2] for how in outcomes if how is not CallOutcome.GO]
    moves = _offered(world)[:2] + others
    return moves + faults + world.starts() + world.interventions() if moves else world.starts()[:1] or _given_up(world)


def overtaking(world: World) -> list[Move]:
    """Alternatives at critical calls only: another actor moves, an attempt is given up, a workflow starts, a person commits."""
    actors = world.actors()
    able = [who for who, outcomes in actors if CallOutcome.GO in outcomes]
    offered = _offered(world)
    plain: list[Move] = offered[:1] or [(who, CallOutcome.GO) for who in able[:1]] or world.starts()[:1] or _given_up(world)
    if not able or world.hub.verb_of(able[0]) not in CRITICAL_VERBS:
        return plain
    others: list[Move] = [(who, CallOutcome.GO) for who in able if (who, CallOutcome.GO) != plain[0]]
    interventions = [
        intervention for intervention in world.interventions() if intervention[1].startswith(GIVE_UP) or intervention == BY_HAND
    ]
    return plain + others + world.starts() + interventions


def _offered(world: World) -> list[Move]:
    """The hand-out of the first scheduled task, with a body that adds a file and with one that changes nothing."""
    hand_outs = world.hand_outs()
    first = [move for move in hand_outs if move[1].startswith(hand_outs[0][1].partition(" adds")[0])]
    plain = [move for move in first if move[1].endswith(" adds")]
    return plain + [move for move in first if move[1].endswith(" changes nothing")]


def _given_up(world: World) -> list[Move]:
    """The timeout of an attempt: the only move left once no actor can move."""
    return [intervention for intervention in world.interventions() if intervention[1].startswith(GIVE_UP)][:1]


Deviations = tuple[tuple[int, int], ...]
"""Pairs of a step of the schedule and the number of the alternative that is chosen there."""


@dataclass(frozen=True, slots=True)
class Until:
    """Moves an actor until it is about to make the call."""

    who: str
    verb: str


Opening = tuple[Move | Until, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Schedules with the same setting and the same opening, which then deviate from the default in a few places."""

    name: str
    setting: Setting
    opening: Opening
    alternatives: Callable[[World], list[Move]]

    def label(self, deviations: Deviations) -> str:
        return "/".join([self.name, *(f"{step}.{choice}" for step, choice in deviations)])


@dataclass
class Deviating:
    """The default schedule, in which the actor that moved last continues to its end, with the given deviations."""

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
            return (first.who if request is None else request.name), CallOutcome.GO
        self._opening.pop(0)
        return None if isinstance(first, Until) else first


def systematic(make_world: WorldFactory, family: Family, depth: int, *, every: int = 1) -> Iterator[ScheduleRun]:
    """All schedules of the family with at most `depth` deviations, fewest first; of those with the most, about one in `every`.

    These are chosen at random, the same ones each time: a fixed stride would always meet the same kind of alternative.
    """
    dice = random.Random(family.name)
    for number in range(depth + 1):
        for deviations in _deviations(make_world, family, (), number):
            if number < depth or not dice.randrange(every):
                yield run(make_world, Deviating(family, deviations), f"--schedule {family.label(deviations)}")


def _deviations(make_world: WorldFactory, family: Family, given: Deviations, more: int) -> Iterator[Deviations]:
    """`given` and `more` later deviations. Later alternatives are known only after a run up to that point."""
    if not more:
        yield given
        return
    chooser = Deviating(family, given)
    run(make_world, chooser)
    first = given[-1][0] + 1 if given else 0
    for step in range(first, len(chooser.widths)):
        for choice in range(1, chooser.widths[step]):
            yield from _deviations(make_world, family, (*given, (step, choice)), more - 1)


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
    "held": (*_WRITERS_ON_ABANDONED, Until("w2", "relocate"), ("w2", CallOutcome.GO), Until("w1", "delete_branch")),
    "in-doubt": (
        *(*_WRITERS_ON_ABANDONED, Until("w2", "relocate"), ("w2", CallOutcome.GO), ("w2", CallOutcome.LOSE)),
        *(Until("w2", "head"), Until("w1", "relocate")),
    ),
    "lost-answer": (*RIVAL_OPENINGS["the-same"], Until("w2", "merge"), ("w2", CallOutcome.LOSE)),
}
"""Openings that bring two rivals directly before a critical pair of calls."""
GUIDED = _families("guided", settings.TWO, GUIDED_OPENINGS, overtaking)
_BETWEEN_READS: Opening = (
    *(*RIVAL_OPENINGS["writers"], Until("w2", "create_branch"), Until("w1", "report")),
    *(Until("w2", "task"), Until("w2", "workflow")),
)
"""w2 has read that the task of the head is unfinished, and will read its workflow next."""
BETWEEN_READS = _families("between-reads", settings.TWO, {"about-to-report": _BETWEEN_READS}, anything)
STALE = _families("stale", settings.LATER, {"merge": (), "no-op": (_handed_out("1.1", "changes nothing"),)}, overtaking)
HAND_OPENINGS: dict[str, Opening] = {
    "merge": (),
    "met": (_handed_out("1.1", "adds"), Until("w1", "merge"), BY_HAND),
    "no-op": (_handed_out("1.1", "changes nothing"),),
    "undone": (
        *(_handed_out("1.1", "adds"), Until("w1", "merge"), BY_HAND, _begun(2, FROM_HEAD)),
        *(_handed_out("2.1", "adds"), Until("w2", "branches"), ("w2", CallOutcome.GO), Until("w1", "create_branch")),
    ),
}
HANDS = _families("by-hand", settings.BY_HAND, HAND_OPENINGS, overtaking)
HANDS_REFUSED = _families("by-hand-refused", settings.BY_HAND_REFUSED, HAND_OPENINGS, overtaking)
_RERUN_BEFORE_THE_REPORT: Opening = (_handed_out("1.1", "adds"), Until("w1", "report"), (CONDUCTOR, "rerun 1.1"))
_LATE_OPENINGS: dict[str, Opening] = {
    "rerun": _RERUN_BEFORE_THE_REPORT,
    "displaced": (*_RERUN_BEFORE_THE_REPORT, _handed_out("1.1", "adds"), Until("w2", "delete_branch")),
}
_ACCEPTED_LATE: dict[str, Opening] = {"accepted": (*_LATE_OPENINGS["displaced"], ("w1", CallOutcome.GO))}
"""The commit of w1 is accepted after that of w2 has replaced it."""
_UNDER_WAY: dict[str, Opening] = {
    "under-way": (
        *(*_RERUN_BEFORE_THE_REPORT, _handed_out("1.1", "adds"), Until("w2", "relocate")),
        *(("w2", CallOutcome.GO), ("w2", CallOutcome.LOSE), ("w1", CallOutcome.GO)),
    )
}
"""The commit of w1 is accepted while a relocation of w2, for which w2 no longer waits, can still replace it."""
_NEXT_HAS_LISTED: dict[str, Opening] = {
    "next-has-listed": (
        *(*_ACCEPTED_LATE["accepted"], _handed_out("1.2", "adds"), Until("w3", "branches"), ("w3", CallOutcome.GO)),
        Until("w1", "create_branch"),
    )
}
"""As `_ACCEPTED_LATE`, and both w1 and the publication of the next step are about to put the accepted commit back."""
LATE = _families("late", settings.LATE_REPORTS, _LATE_OPENINGS | _NEXT_HAS_LISTED, anything)
LATE_ONE = _families("late-one", settings.LATE_REPORT, _LATE_OPENINGS | _ACCEPTED_LATE | _UNDER_WAY, anything)
LATE_OF_TWO = _families("late-of-two", settings.LATE_REPORTS_OF_TWO, _LATE_OPENINGS | _ACCEPTED_LATE, anything)
_OUTDATED: Opening = (
    *(_handed_out("1.1", "adds"), Until("w1", "snapshot"), (CONDUCTOR, "rerun 1.1")),
    *(_handed_out("1.1", "adds"), Until("w2", "report"), ("w2", CallOutcome.GO), ("w2", CallOutcome.GO)),
    *(Until("w1", "task"), ("w1", CallOutcome.GO), (CONDUCTOR, "rerun 1.1")),
    *(_handed_out("1.1", "adds"), Until("w3", "report"), ("w3", CallOutcome.GO), ("w3", CallOutcome.GO)),
)
"""w1 has read that the commit of w2 was accepted and is about to restore it; then a rerun replaces that commit."""
RESTORING = _families("restoring", ONE, {"outdated": _OUTDATED}, anything)
FAMILIES = (
    *(*OVERTAKING, *LATER, *ANYTHING, *RIVALS, *CALM_RIVALS, *LANES, *CALM_LANES, *RIVALS_ANYTHING),
    *(*GUIDED, *BETWEEN_READS, *RESTORING, *STALE, *HANDS, *HANDS_REFUSED, *LATE, *LATE_ONE, *LATE_OF_TWO),
)


def labelled(make_world: WorldFactory, label: str) -> ScheduleRun:
    """Run the systematic schedule with the label."""
    kind, opening, *deviations = label.split("/")
    family = next(family for family in FAMILIES if family.name == f"{kind}/{opening}")
    steps = ((int(step), int(choice)) for step, choice in (deviation.split(".") for deviation in deviations))
    return run(make_world, Deviating(family, tuple(steps)), f"--schedule {label}")


def mixed(make_world: WorldFactory, seeds: Iterable[int], families: Iterable[Family], depth: int) -> Iterator[ScheduleRun]:
    """Alternate between random schedules and those of each family, until all are exhausted."""
    sources = [at_random(make_world, seeds), *(systematic(make_world, family, depth) for family in families)]
    while sources:
        for source in list(sources):
            if (done := next(source, None)) is None:
                sources.remove(source)
            else:
                yield done


# shortening


class Replay:
    """Makes the given moves in order, without those that are impossible when their turn comes."""

    def __init__(self, setting: Setting, moves: Sequence[Move]) -> None:
        self.setting = setting
        self._moves = iter(moves)

    def choose(self, world: World) -> Move | None:
        possible = {*world.hand_outs(), *world.starts(), *world.interventions()}
        possible |= {(who, how) for who, outcomes in world.actors() for how in outcomes}
        return next((move for move in self._moves if move in possible), None)


def shortened(make_world: WorldFactory, failing: ScheduleRun) -> ScheduleRun:
    """Remove moves from a failing schedule, in smaller and smaller pieces, as long as it breaks the same rule."""
    best, size = failing, max(1, len(failing.moves) // 2)
    while True:
        shorter = _shorter(make_world, best, size)
        if shorter is not None:
            best = shorter
        elif size == 1:
            return best
        else:
            size = size // 2


def _shorter(make_world: WorldFactory, best: ScheduleRun, size: int) -> ScheduleRun | None:
    for start in reversed(range(0, len(best.moves), size)):
        left = best.moves[:start] + best.moves[start + size :]
        again = run(make_world, Replay(best.world.setting, left), best.name)
        same = again.broken is not None and best.broken is not None and again.broken.rule == best.broken.rule
        if same and len(again.moves) < len(best.moves):
            return again
    return None
