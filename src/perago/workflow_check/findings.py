"""What is wrong with a workflow definition, as values."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    ERROR = "error"
    """The workflow fails, or does not do what was meant, on at least one path."""
    WARNING = "warning"
    """Correct only if something holds that the definition does not show."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`ref` names the step; None is the workflow itself, for example its output."""

    ref: str | None
    text: str
    level: Level = Level.ERROR

    def __str__(self) -> str:
        return self.text if self.ref is None else f"task {self.ref}: {self.text}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?`, or nothing."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
