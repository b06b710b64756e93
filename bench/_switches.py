"""Switches that turn off rules of the publication protocol in executors of the contention soak, by replacing functions."""

from collections.abc import Callable
from typing import Any

from perago.model import Commit
from perago.protocol import commit_labels, head


def without_verification() -> None:
    """Treat every labelled commit on top of the input as abandoned, without regard to the state of its task (rule 1)."""
    judge = head.judge

    def judged(commit: Commit, *arguments: Any, **named: Any) -> head.Acceptance:
        by = commit_labels.read(commit.metadata)
        return judge(commit, *arguments, **named) if by is None else head.Abandoned(by, "nothing was verified")

    put(head, "judge", judged)


RULES: dict[str, Callable[[], None]] = {"verify-abandonment": without_verification}
"""`contention.py` and `fence.py` switch off other rules. A soak without rule 2 (announce first) showed no loss."""


def put(owner: object, name: str, value: Callable[..., Any]) -> None:
    """Replace a function. Fails if it does not exist any more: a switch without effect would prove nothing."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name}")
    setattr(owner, name, value)
