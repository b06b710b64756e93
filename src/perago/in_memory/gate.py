"""Where a call of the in-memory lake can be cut: a gate is asked before, within and after each."""

from collections.abc import Callable
from enum import StrEnum


class RequestStep(StrEnum):
    """Where in a call the gate is asked."""

    BEFORE = "before"
    """Nothing has happened: an error raised here is a request that never arrived."""
    BETWEEN = "between"
    """Merge and relocate only: the branch record is read, the source resolved, nothing set yet. Asked anew on each start over."""
    AFTER = "after"
    """The effect is there, the reply is not: an error raised here is a reply that was cut off."""


Gate = Callable[[str, RequestStep], None]
"""Called with the port's verb and the step. May switch to another actor, wait, or raise; no lock is held meanwhile."""


def open_gate(_verb: str, _step: RequestStep) -> None:
    """Lets everything through."""
