"""The cases that TLC checks: each is a variant of the protocol with its bounds, and whether it has to hold."""

from dataclasses import dataclass, replace
from enum import StrEnum

SAFE = ("NeverLost", "OnItsInput")
ONE_LANE = (*SAFE, "NeverBuried")


class Group(StrEnum):
    PROTOCOL = "the protocol"
    RESTORE = "after a late report"
    RULE = "without one of its rules"
    LIMIT = "beyond its limits"


@dataclass(frozen=True, slots=True)
class Case:
    """One run of TLC. `holds` is the expected verdict; `changes` and `empty` are what a body can do to its workspace."""

    name: str
    group: Group
    description: str
    holds: bool = False
    slots: int = 3
    lanes: int = 1
    forked: bool = False
    steps: int = 1
    reruns: int = 0
    hands: int = 0
    unlabelled: str = "replace"
    changes: bool = True
    empty: bool = False
    whole: bool = False
    off: tuple[str, ...] = ()
    world: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ONE_LANE
    grows: bool = True
    """Whether `--depth` adds executions to this case."""

    def config(self) -> str:
        """The text of TLC's configuration file."""
        bodies = [str(change).upper() for change, can in ((True, self.changes), (False, self.empty)) if can]
        constants = {
            "Slots": str(self.slots),
            "Lanes": str(self.lanes),
            "Forked": str(self.forked).upper(),
            "Steps": str(self.steps),
            "Reruns": str(self.reruns),
            "Hands": str(self.hands),
            "Unlabelled": f'"{self.unlabelled}"',
            "Changes": f"{{{', '.join(bodies)}}}",
            "Whole": str(self.whole).upper(),
            "Off": _set(self.off),
            "World": _set(self.world),
        }
        written = (f"  {name} = {value}" for name, value in constants.items())
        checked = (f"  {name}" for name in self.invariants)
        return "\n".join(["SPECIFICATION Spec", "CHECK_DEADLOCK FALSE", "CONSTANTS", *written, "INVARIANTS", *checked, ""])


def _set(members: tuple[str, ...]) -> str:
    quoted = ", ".join(f'"{member}"' for member in members)
    return f"{{{quoted}}}"


def _one(name: str, description: str) -> Case:
    return Case(name, Group.PROTOCOL, description, holds=True, steps=2, reruns=1, empty=True, world=("vanish",))


def _several(name: str, description: str, lanes: int = 2) -> Case:
    return Case(name, Group.PROTOCOL, description, holds=True, lanes=lanes, empty=True, world=("vanish",), invariants=SAFE)


def _late(name: str, description: str) -> Case:
    world, checked = ("late-report",), ("Restorable", "Restored")
    return Case(name, Group.RESTORE, description, holds=True, reruns=1, empty=True, world=world, invariants=(*SAFE, *checked))


def _rule(name: str, description: str) -> Case:
    return Case(name, Group.RULE, description, off=(name,))


def _rivals(name: str, description: str) -> Case:
    return replace(_rule(name, description), lanes=2, invariants=SAFE)


def _restores(name: str, description: str) -> Case:
    return replace(_rule(name, description), slots=2, reruns=1, world=("late-report",), invariants=("Restored",))


def _limit(name: str, description: str) -> Case:
    return Case(name, Group.LIMIT, description)


_PROTOCOL = (
    replace(
        _one("full", "one workflow of two steps: retries, a rerun, lost answers; clients stop anywhere"),
        slots=4,
        empty=False,
        world=(),
    ),
    _one("vanishing", "the same with attempts that change nothing; any staging branch may be deleted at any time"),
    replace(_one("unabridged", "the same, every crash and every state spelled out"), slots=2, whole=True),
    replace(
        _one("optional", "a step that ran out of time is skipped while its worker goes on"), world=("optional-step", "vanish")
    ),
    replace(_one("stale-step", "the second step reads the workflow's input"), world=("stale-step", "vanish"), invariants=SAFE),
    _several("two-workflows", "two workflows, from one commit or one after the other; retries"),
    replace(
        _several("fork", "two lanes of a fork; bodies that need a handle from the start"),
        forked=True,
        world=("vanish", "early-handle"),
    ),
    replace(_several("three-workflows", "three workflows", lanes=3), empty=False),
    replace(_several("by-hand", "a person commits meanwhile; such a commit may be replaced"), lanes=1, hands=1, empty=False),
    replace(
        _several("by-hand-kept", "a person commits meanwhile; such a commit is kept"),
        slots=2,
        hands=1,
        unlabelled="refuse",
        world=("vanish", "waiting-hands"),
        invariants=(*SAFE, "HandKept"),
    ),
    replace(
        _several("a-winner", "no time-outs, no lost answers: once all have ended, at least one was accepted", lanes=3),
        world=("calm",),
        invariants=("OneWins",),
    ),
)
_RESTORE = (
    _late("late-last-step", "a worker from before a rerun reports after it: the accepted commit is put back"),
    replace(
        _late("late-next-step", "the same before another step, which may read the workflow's input: it can be put back"),
        steps=2,
        empty=False,
        world=("late-report", "stale-step"),
        invariants=(*SAFE, "Restorable"),
    ),
    replace(
        _late("late-others", "the same beside another workflow, whose publications stay"),
        lanes=2,
        empty=False,
        invariants=SAFE,
        grows=False,
    ),
)
_RULES = (
    replace(_rivals("verify-abandoned", "every head directly on the input may be removed"), slots=2),
    replace(
        _restores("displaced", "a head whose task was completed with another commit counts as abandoned"),
        slots=3,
        steps=2,
        world=("late-report", "stale-step"),
        invariants=("Restorable",),
    ),
    replace(_rule("verify", "the parent of the merge commit is not checked"), slots=1, hands=1),
    replace(_rivals("verify-mend", "a merge that met another commit replaces it, whatever it is"), slots=2),
    _rivals("announce-first", "the staging branch is made after the list"),
    replace(_rivals("list-again", "rivals are not listed again after a late handle"), empty=True),
    replace(_rivals("order", "two live rivals revoke each other"), slots=2, empty=True, world=("calm",), invariants=("OneWins",)),
    _rule("revoke", "staging branches of others stay"),
    replace(_rule("peers", "earlier executions of the same task are not revoked"), reruns=1),
    _rivals("barrier", "updates that are under way are not interrupted before a relocation"),
    _rule("byname", "publish requests name the commit, not the staging branch"),
    replace(_rule("handle", "an attempt without a change relocates to the input's commit id"), empty=True),
    replace(_rule("fenced-handle", "the handle is made after the last attempt fence"), slots=2, reruns=1, empty=True),
    replace(_rivals("undo-claim", "an attempt removes its own merge without announcing that"), slots=2, hands=1),
    _rule("own-merge", "a merge without answer counts as done when the head looks right"),
    _rule("own-commit", "a relocation without answer counts as done when the head looks right"),
    _restores("restore", "what Conductor accepted is not put back"),
    _restores("restore-barrier", "a restoration reads the head while the own request may still be applied"),
    _restores("restore-peers", "two restorations of the same commit revoke each other"),
)
_LIMITS = (
    replace(_limit("two-per-poll", "one poll is executed twice at the same time"), slots=2, reruns=1, world=("two-per-poll",)),
    replace(_limit("stuck", "a client dies before it could mend a merge"), slots=2, invariants=("NeverStuck",)),
    replace(
        _limit("no-change-on-a-hand-made-commit", "a workflow starts from a commit made by hand that another one replaces"),
        slots=2,
        lanes=2,
        hands=1,
        empty=True,
        invariants=("NeverLostAtAll",),
    ),
    replace(
        _limit("late-beside-others", "another workflow has replaced the commit that Conductor accepts late"),
        lanes=2,
        reruns=1,
        world=("late-report",),
        invariants=("Restorable",),
    ),
    replace(
        _limit("late-before-next-step", "the next step met the other result, fails, and is not tried again"),
        steps=2,
        reruns=1,
        world=("late-report",),
        invariants=("Restored",),
    ),
    replace(
        _limit("by-hand-at-once", "a person commits while a relocation is under way"),
        slots=2,
        lanes=2,
        hands=1,
        unlabelled="refuse",
        invariants=("HandKept",),
    ),
)


def cases(depth: int = 0) -> tuple[Case, ...]:
    """All cases. Those that have to hold get `depth` additional executions; a counterexample does not need them."""
    bounded = (*_PROTOCOL, *_RESTORE)
    deeper = (replace(case, slots=case.slots + depth) if case.grows else case for case in bounded)
    return (*deeper, *_RULES, *_LIMITS)
