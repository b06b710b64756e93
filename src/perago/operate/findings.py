"""What `perago doctor` found: one value for each, with the command that fixes it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` never changes, for scripts; `subject` is a server, a repository or a branch."""

    level: Level
    check: str
    subject: str
    text: str
    fix: str | None = None


def need_action(findings: Iterable[Finding]) -> bool:
    return any(finding.level is Level.ACTION for finding in findings)
