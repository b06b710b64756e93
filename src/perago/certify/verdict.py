"""What became of a scenario, and the two ways in which one can end without having held."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    HELD = "held"
    BROKEN = "broken"
    NOT_REACHED = "not reached"
    """The worker did not come to the point where the fault was to happen, so nothing was found out."""


class Broken(Exception):
    """A rule of the protocol that the worker did not follow; the text is the evidence."""


class NotReached(Exception):
    """The scenario could not be run to its end; the text says where it stopped."""


class Interrupted(Exception):
    """The run of all scenarios was stopped."""


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    attempted: str
    """What was tried, as a sentence."""
    verdict: Verdict
    evidence: str
    seconds: float = 0.0


def require(holds: bool, evidence: str) -> None:
    """`Broken` with the evidence, unless it holds."""
    if not holds:
        raise Broken(evidence)
