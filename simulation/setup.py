"""The settings of a simulation: the workflows that publish to the target branch, and the events that can occur."""

from dataclasses import dataclass

from perago.protocol.decision import UnlabelledHead

WRITERS = ("adds", "overwrites", "deletes", "adds on its branch", "only deletes")
NO_OPS = ("changes nothing", "changes nothing on its branch")


@dataclass(frozen=True, slots=True)
class Shape:
    """One workflow. The first `lanes` steps are a fork; if `is_chained`, each later step reads the output of an earlier one."""

    steps: int = 1
    lanes: int = 1
    is_chained: bool = True
    """If false, every step reads the workflow's input."""


@dataclass(frozen=True, slots=True)
class Setting:
    workflows: tuple[Shape, ...]
    starts_later: bool = False
    """Only the first workflow starts at once. The others start at any time, from one of several commits."""
    unlabelled: UnlabelledHead = UnlabelledHead.REPLACE
    by_hand: int = 0
    """The number of commits that may be made by hand on the target branch."""
    takes_late_reports: bool = False
    """Conductor accepts the report of an execution although it has handed out the task again, as the real one does."""
    is_calm: bool = False
    """No faults, no attempts given up, no retries: only the order of the steps varies."""
    bodies: tuple[str, ...] = (*WRITERS, *NO_OPS)
    most_workers: int = 5
    max_interventions: int = 4

    @property
    def is_single_chain(self) -> bool:
        """There is one workflow, each step reads the output of the previous one, and nothing else writes to the branch."""
        shape = self.workflows[0]
        return len(self.workflows) == 1 and shape.lanes == 1 and shape.is_chained and not self.by_hand

    @property
    def is_single_step(self) -> bool:
        """There is no later step whose publication would put an accepted commit back."""
        return self.is_single_chain and self.workflows[0].steps == 1


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
"""Settings with more than one writer."""
SINGLE_WORKFLOW = {"one": one(1), "two-steps": one(2), "late-report": LATE_REPORT, "late-reports": LATE_REPORTS}
