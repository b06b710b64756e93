"""Whether the running attempt was called off: set by the worker, asked by the body. Plain flags, safe in a signal handler."""

_reason: str | None = None


def cancelled() -> bool:
    """True once nobody wants this attempt's result any more: stop, nothing will be published.

    For long bodies to ask between steps; `raise` or return early, it makes no difference. A body that does not ask is
    interrupted after a while, and killed in the end.
    """
    return _reason is not None


def reason() -> str | None:
    return _reason


def set_reason(why: str | None) -> None:
    global _reason  # noqa: PLW0603  one process runs one attempt at a time
    _reason = why
