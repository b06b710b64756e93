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


class Removal(StrEnum):
    """Why a commit was taken off the target branch."""

    REPLACE = "replace"
    """The attempt's own commit took its place."""
    MOVE_BACK = "move_back"
    """The attempt changed nothing: the branch was moved back to its input."""
    MEND = "mend"
    """It came between reading the head and merging, and was verified as abandoned."""
    UNDO = "undo"
    """The attempt's own commit, which had met a commit that must stay."""
    RESTORE = "restore"
    """It stood where a commit that Conductor accepted should be."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A commit is no longer on the target branch. Logs, metrics and Conductor's task log record each one."""

    removal: Removal
    branch: str
    commit: str
    head: str
    """Where the branch stands now."""
    why: str
    phase: Phase = Phase.PUBLISH

    def __str__(self) -> str:
        return f"branch {self.branch} was at {self.commit}, {self.why}; it was moved to {self.head} ({self.removal.value})"


@dataclass(frozen=True, slots=True)
class Revoked:
    """The staging branch of another attempt was deleted, and with it that attempt's right to publish."""

    rival: str
    """Step and workflow of the other attempt."""
    was_live: bool
    """Conductor still waited for it."""
    phase: Phase = Phase.REVOKE


Event = Progress | Done | Removed | Revoked
Emit = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """The listener of those who do not care."""
