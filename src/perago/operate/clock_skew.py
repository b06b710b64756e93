"""The difference between a server's clock and this machine's."""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch

_TIMEOUT_SECONDS = 10.0


def skew(url: str, now: Callable[[], float] = time.time) -> float | None:
    """Seconds by which the server is ahead (or behind, negative) at least; None where it does not send its time.

    Its `Date` header has whole seconds, and the reply takes time: what these can explain counts as no difference.
    """
    before = now()
    try:
        date = _date(url)
    except ConnectionBroken:
        return None
    after = now()
    if date is None:
        return None
    return max(0.0, date - after) or min(0.0, date + 1 - before)


def _date(url: str) -> float | None:
    reply = fetch(url, timeout=_TIMEOUT_SECONDS)
    try:
        return parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    except ValueError:
        return None
