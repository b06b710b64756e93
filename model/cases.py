"""What is checked: each case is a variant of the protocol with its bounds, and says whether it has to hold."""

from dataclasses import dataclass, replace
from enum import StrEnum

SAFE = ("NeverLost", "OnItsInput", "NeverBuried")


class Group(StrEnum):
    PROTOCOL = "the protocol"
    RULE = "without one of the four rules"
    DETAIL = "without one of their details"
    LIMIT = "beyond its limits"


@dataclass(frozen=True, slots=True)
class Case:
    """One run of TLC. `holds` is what is expected of it."""

    name: str
    group: Group
    says: str
    holds: bool = False
    slots: int = 3
    steps: int = 1
    reruns: int = 0
    scope: str = "target"
    list_first: bool = True
    whole: bool = False
    off: str = ""
    world: str = ""
    invariants: tuple[str, ...] = SAFE

    def config(self) -> str:
        """The text of TLC's configuration file."""
        constants = {
            "Slots": str(self.slots),
            "Steps": str(self.steps),
            "Reruns": str(self.reruns),
            "Scope": f'"{self.scope}"',
            "ListFirst": str(self.list_first).upper(),
            "Whole": str(self.whole).upper(),
            "Off": _set(self.off),
            "World": _set(self.world),
        }
        written = (f"  {name} = {value}" for name, value in constants.items())
        checked = (f"  {name}" for name in self.invariants)
        return "\n".join(["SPECIFICATION Spec", "CHECK_DEADLOCK FALSE", "CONSTANTS", *written, "INVARIANTS", *checked, ""])


def _set(member: str) -> str:
    return f'{{"{member}"}}' if member else "{}"


def _holds(name: str, says: str) -> Case:
    return Case(name, Group.PROTOCOL, says, holds=True, steps=2, reruns=1)


def _rule(name: str, says: str) -> Case:
    return Case(name, Group.RULE, says, off=name)


def _detail(name: str, says: str) -> Case:
    return Case(name, Group.DETAIL, says, off=name)


def _limit(name: str, says: str) -> Case:
    return Case(name, Group.LIMIT, says, world=name, steps=2, reruns=1)


_BOUNDED = (
    replace(_holds("full", "retries, a rerun, the next step, lost answers; clients stop anywhere"), slots=4),
    replace(_holds("unabridged", "the same, every crash and every state spelled out"), whole=True),
    replace(_holds("narrow", "revoking only the same logical task, listed after the fence"), scope="task", list_first=False),
    replace(_holds("optional", "a step that ran out of time is skipped while its worker goes on"), world="optional-step"),
)
_FOUND = (
    _rule("revoke", "older staging branches stay"),
    _rule("byname", "publish requests name the commit, not the staging branch"),
    _rule("handle", "a no-op relocates to the input's commit id"),
    _rule("verify", "nobody looks at the merge commit's parent"),
    _detail("fenced-handle", "the handle is made after the last attempt fence"),
    _detail("own-commit", "a relocation without answer counts as done when the head looks right"),
    replace(_detail("disarm", "after a lost answer the staging branch stays; revocation is narrow"), scope="task", steps=2),
    replace(_detail("peers", "only lower retry counts are revoked"), scope="task", reruns=1),
    _limit("late-report", "a worker of before a rerun reports after it"),
    _limit("two-per-poll", "one poll is executed twice at the same time"),
    replace(_limit("optional-step", "a step is skipped, and revocation is the narrow one"), scope="task"),
    replace(_limit("stuck", "a client dies before it could mend a merge"), world="", invariants=("NeverStuck",)),
)


def cases(depth: int = 0) -> tuple[Case, ...]:
    """All of them. What has to hold is checked with `depth` more executions than usual; a counterexample needs no more."""
    deeper = (replace(case, slots=case.slots + depth, reruns=case.reruns + (depth > 1)) for case in _BOUNDED)
    return (*deeper, *_FOUND)
