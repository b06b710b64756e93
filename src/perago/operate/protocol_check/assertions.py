"""What a check requires, and the two ways in which it can end without having passed."""

from perago.errors import TaskStatus
from perago.model import Outcome
from perago.operate.protocol_check.scene import Scene, ref_of


class CheckFailed(Exception):
    """A check that does not hold."""


class Unobservable(Exception):
    """A check that this server gives no means for."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


def require_published(scene: Scene, outcome: Outcome) -> None:
    head = scene.head()
    require(outcome.status is TaskStatus.COMPLETED, f"the attempt ended with {outcome.status}: {outcome.reason}")
    require(ref_of(outcome) == head.id, "the output does not name the target's head")
    require(head.parents == (scene.a,), "the publication does not stand directly on its input")


def require_refused(scene: Scene, outcome: Outcome, head: str) -> None:
    require(outcome.status is TaskStatus.FAILED, f"the attempt ended with {outcome.status}")
    require(outcome.output is None, "a failed attempt has an output")
    require(scene.head().id == head, "the target moved")
