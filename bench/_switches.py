"""Rules of the publication protocol that executors of the contention soak can be made not to follow; production code cannot."""

from collections.abc import Callable
from typing import Any

from perago.model import Commit
from perago.protocol import commit_labels, head


def without_verification() -> None:
    """A labelled commit on top of the input counts as abandoned, whatever Conductor says of its task (rule 1)."""
    judge = head.judge

    def judged(commit: Commit, *arguments: Any, **named: Any) -> head.Acceptance:
        by = commit_labels.read(commit.metadata)
        return judge(commit, *arguments, **named) if by is None else head.Abandoned(by, "nothing was verified")

    put(head, "judge", judged)


RULES: dict[str, Callable[[], None]] = {"verify-abandonment": without_verification}
"""`contention.py` and `fence.py` switch off others, in rounds made for them. A soak without announcing first showed no loss."""


def put(owner: object, name: str, value: Callable[..., Any]) -> None:
    """Fails if the name is not there any more: a switch that switches nothing would prove nothing."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name}")
    setattr(owner, name, value)
