"""What happens during an attempt, as values. Rooms emit them; logs, metrics, progress bars and `perago status` listen."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where an attempt is, in the order it walks through."""

    PREPARE = "prepare"
    DOWNLOAD = "download"
    PRE_CHECK = "pre-check"
    BODY = "body"
    POST_CHECK = "post-check"
    FENCE = "fence"
    DIFF = "diff"
    STAGE = "stage"
    REVOKE = "revoke"
    PUBLISH = "publish"
    VERIFY = "verify"
    CLEAN_UP = "clean-up"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Progress:
    """Long work on its way; totals are None while they are not known yet."""

    phase: Phase
    files: int = 0
    bytes: int = 0
    total_files: int | None = None
    total_bytes: int | None = None
    note: str = ""
    unit: str = "files"
    """What `files` counts."""


@dataclass(frozen=True, slots=True)
class Done:
    """One effect that ended, well or badly (`error` is then its one line)."""

    phase: Phase
    action: str
    seconds: float
    files: int = 0
    bytes: int = 0
    requests: int = 0
    detail: str = ""
    error: str | None = None


Event = Progress | Done
Emit = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """The listener of those who do not care."""
