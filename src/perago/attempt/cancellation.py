"""Whether the running attempt is cancelled. The executor sets it; the body and the transaction ask.

A plain variable, because a signal handler reads it.
"""

from perago.errors import AttemptCancelled

_reason: str | None = None


def cancelled() -> bool:
    """True once the result of this attempt is no longer wanted: stop, nothing will be published.

    For long bodies to ask between steps; `raise` or return early, it makes no difference. A body that does not ask is
    interrupted after a while, and killed in the end.
    """
    return _reason is not None


def reason() -> str | None:
    """Why the attempt is cancelled; None if it is not."""
    return _reason


def require_wanted() -> None:
    """Raise `AttemptCancelled` if the attempt is cancelled."""
    if _reason is not None:
        raise AttemptCancelled(f"the attempt was cancelled: {_reason}")


def set_reason(why: str | None) -> None:
    """Cancel the attempt, or clear the cancellation before the next attempt by None."""
    global _reason  # noqa: PLW0603  one process runs one attempt at a time
    _reason = why
