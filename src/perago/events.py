"""Events of an attempt, as values: attempts emit them; logs, metrics, progress bars and `perago status` use them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Phase(StrEnum):
    """The phases of an attempt, in their order."""

    PREPARE = "prepare"
    DOWNLOAD = "download"
    PRE_CHECK = "pre-check"
    BODY = "body"
    POST_CHECK = "post-check"
    VERIFY_INPUT = "verify-input"
    FENCE = "fence"
    DIFF = "diff"
    STAGE = "stage"
    REVOKE = "revoke"
    PUBLISH = "publish"
    VERIFY = "verify"
    CLEAN_UP = "clean-up"
    REPORT = "report"


class Effect(StrEnum):
    """One measured step of an attempt. The value is its name in logs; each belongs to one phase, which metrics add up."""

    phase: Phase

    def __new__(cls, name: str, phase: Phase) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.phase = phase
        return member

    READ_TARGET_BRANCH = "read the target branch", Phase.PREPARE
    READ_INPUT_COMMIT = "read the input commit", Phase.PREPARE
    DOWNLOAD = "download", Phase.DOWNLOAD
    PRE_CHECKS = "pre checks", Phase.PRE_CHECK
    BODY = "body", Phase.BODY
    SETTLE = "settle", Phase.BODY
    POST_CHECKS = "post checks", Phase.POST_CHECK
    VERIFY_INPUT = "verify the input", Phase.VERIFY_INPUT
    ATTEMPT_FENCE = "attempt fence", Phase.FENCE
    ASK_ABOUT_HEAD_TASK = "ask about the head's task", Phase.FENCE
    ASK_ABOUT_HEAD_WORKFLOW = "ask about the head's workflow", Phase.FENCE
    ASK_ABOUT_RIVAL = "ask about a rival's task", Phase.FENCE
    ASK_ABOUT_TASK = "ask about a task", Phase.FENCE
    DIFF = "diff", Phase.DIFF
    MERGE_LANES = "merge lanes", Phase.DIFF
    COMPARE_LANES = "compare lanes with their union", Phase.DIFF
    COPY_FROM_LANES = "copy objects from lanes", Phase.DIFF
    CREATE_STAGING_BRANCH = "create staging branch", Phase.STAGE
    UPLOAD = "stage", Phase.STAGE
    COMMIT = "commit", Phase.STAGE
    LIST_RIVALS = "list staging branches", Phase.REVOKE
    REVOKE_RIVAL = "delete staging branch of another attempt", Phase.REVOKE
    INTERRUPT_UPDATES = "interrupt updates", Phase.REVOKE
    MERGE = "merge", Phase.PUBLISH
    RELOCATE = "relocate", Phase.PUBLISH
    RESTORE = "restore", Phase.PUBLISH
    READ_MERGE_COMMIT = "read the merge commit", Phase.VERIFY
    READ_HEAD = "read the head", Phase.VERIFY
    DELETE_STAGING_BRANCH = "delete staging branch", Phase.CLEAN_UP
    DELETE_LANES = "delete lane branches", Phase.CLEAN_UP
    KEEP_ATTEMPT = "keep the attempt that failed its checks", Phase.CLEAN_UP
    CLOSE_WORKSPACE = "close workspace", Phase.CLEAN_UP


@dataclass(frozen=True, slots=True)
class Progress:
    """Intermediate state of a phase; totals are None while they are not known."""

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
    """An effect that has ended. `error` is its one-line message if it failed."""

    effect: Effect
    seconds: float
    files: int = 0
    bytes: int = 0
    requests: int = 0
    detail: str = ""
    error: str | None = None

    @property
    def phase(self) -> Phase:
        return self.effect.phase


class Removal(StrEnum):
    """Why a commit was removed from the target branch."""

    REPLACE = "replace"
    """The attempt's own commit took its place."""
    MOVE_BACK = "move_back"
    """The attempt changed nothing: the branch was moved back to its input."""
    MEND = "mend"
    """It was committed between reading the head and merging, and Conductor's answer shows that it is abandoned."""
    UNDO = "undo"
    """The attempt's own commit, merged on top of a commit that must stay."""
    RESTORE = "restore"
    """It was where a commit that Conductor accepted should be."""


_REMOVED = re.compile(
    r"branch (?P<branch>\S+) was at (?P<commit>\S+), (?P<why>.*); it was moved to (?P<head>\S+) "
    rf"\((?P<removal>{'|'.join(Removal)})\)"
)


@dataclass(frozen=True, slots=True)
class Removed:
    """A commit is no longer on the target branch. Logs, metrics and Conductor's task log record each one."""

    removal: Removal
    branch: str
    commit: str
    head: str
    """The branch's new head."""
    why: str
    phase: Phase = Phase.PUBLISH

    def __str__(self) -> str:
        return f"branch {self.branch} was at {self.commit}, {self.why}; it was moved to {self.head} ({self.removal.value})"

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """The event of a line that `__str__` wrote, as Conductor's task log keeps it."""
        found = _REMOVED.fullmatch(line)
        return found and cls(Removal(found["removal"]), found["branch"], found["commit"], found["head"], found["why"])


@dataclass(frozen=True, slots=True)
class Revoked:
    """This attempt deleted the staging branch of another one, which can no longer publish."""

    rival: str
    """Step and workflow of the other attempt."""
    was_live: bool
    """Whether Conductor was still waiting for it."""
    phase: Phase = Phase.REVOKE


@dataclass(frozen=True, slots=True)
class TableChecked:
    """The data checks of one table were evaluated."""

    table: str
    """Relative to the workspace."""
    rows: int | None
    """None where the table could not be read."""
    rules: int
    bad: dict[str, int]
    """Rows that break a rule, by the rule; rules without such rows are left out."""
    seconds: float
    unchanged: bool
    """Nothing was read: according to the input commit the same checks held for the same content."""
    violations: int
    phase: Phase = Phase.POST_CHECK


Event = Progress | Done | Removed | Revoked | TableChecked
Emit = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """An `Emit` that discards events."""
