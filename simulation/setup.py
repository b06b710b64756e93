"""What a simulation is about: the workflows that publish to the one target branch, and what may happen around them."""

from dataclasses import dataclass

from perago.protocol.decision import UnlabelledHead

WRITERS = ("adds", "overwrites", "deletes", "adds on its branch", "only deletes")
NO_OPS = ("changes nothing", "changes nothing on its branch")


@dataclass(frozen=True, slots=True)
class Shape:
    """One workflow. The first `lanes` steps are a fork; the steps after it take what an earlier one left, if `is_chained`."""

    steps: int = 1
    lanes: int = 1
    is_chained: bool = True
    """Otherwise every step takes the workflow's own input."""


@dataclass(frozen=True, slots=True)
class Setting:
    workflows: tuple[Shape, ...]
    starts_later: bool = False
    """Only the first workflow begins at once; each other one at any time, from any of some commits."""
    unlabelled: UnlabelledHead = UnlabelledHead.REPLACE
    by_hand: int = 0
    """Commits that people may make on the target branch."""
    takes_late_reports: bool = False
    """Conductor takes the report of an execution although it has handed the task out again since, as the real one does."""
    is_calm: bool = False
    """No faults, nothing given up, no retries: only the order of steps is open."""
    bodies: tuple[str, ...] = (*WRITERS, *NO_OPS)
    most_workers: int = 5
    most_whims: int = 4

    @property
    def is_one_line(self) -> bool:
        """One workflow, each of whose steps builds on the one before it, and no other writer."""
        shape = self.workflows[0]
        return len(self.workflows) == 1 and shape.lanes == 1 and shape.is_chained and not self.by_hand

    @property
    def is_one_step(self) -> bool:
        """Nothing follows that would put an accepted commit back by its own publication."""
        return self.is_one_line and self.workflows[0].steps == 1


def one(steps: int) -> Setting:
    return Setting((Shape(steps),))


TWO = Setting((Shape(), Shape()))
TWO_LONG = Setting((Shape(2), Shape()))
LATER = Setting((Shape(2), Shape(2)), starts_later=True)
UNCHAINED = Setting((Shape(2, is_chained=False), Shape()))
THREE = Setting((Shape(), Shape(), Shape()), most_workers=6)
FORK = Setting((Shape(3, lanes=2),))
FORK_AND_ONE = Setting((Shape(2, lanes=2), Shape()), starts_later=True)
BY_HAND = Setting((Shape(), Shape()), starts_later=True, by_hand=2)
BY_HAND_REFUSED = Setting((Shape(), Shape()), starts_later=True, by_hand=2, unlabelled=UnlabelledHead.REFUSE)
LATE_REPORTS = Setting((Shape(2),), takes_late_reports=True)
LATE_REPORT = Setting((Shape(),), takes_late_reports=True)
LATE_REPORTS_OF_TWO = Setting((Shape(), Shape()), starts_later=True, takes_late_reports=True, bodies=WRITERS)
CALM_TWO = Setting((Shape(), Shape()), is_calm=True)
CALM_THREE = Setting((Shape(), Shape(), Shape()), is_calm=True)
CALM_FORK = Setting((Shape(2, lanes=2),), is_calm=True)

RIVALS = {
    "two": TWO,
    "two-long": TWO_LONG,
    "later": LATER,
    "unchained": UNCHAINED,
    "three": THREE,
    "fork": FORK,
    "fork-and-one": FORK_AND_ONE,
    "by-hand": BY_HAND,
    "by-hand-refused": BY_HAND_REFUSED,
    "late-reports-of-two": LATE_REPORTS_OF_TWO,
    "calm-two": CALM_TWO,
    "calm-three": CALM_THREE,
    "calm-fork": CALM_FORK,
}
"""All with more than one writer."""
ALONE = {"one": one(1), "two-steps": one(2), "late-report": LATE_REPORT, "late-reports": LATE_REPORTS}
