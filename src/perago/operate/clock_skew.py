"""How far a server's clock is from this machine's: an address comes in, seconds leave."""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from perago.http import http1

_TIMEOUT_SECONDS = 10.0


def skew(url: str, now: Callable[[], float] = time.time) -> float | None:
    """Seconds by which the server is ahead (or behind, negative) at least; None where it does not send its time.

    Its `Date` header has whole seconds, and the reply takes time: what these can explain counts as no difference.
    """
    before = now()
    try:
        date = _date(url)
    except http1.Broken:
        return None
    after = now()
    if date is None:
        return None
    return max(0.0, date - after) or min(0.0, date + 1 - before)


def _date(url: str) -> float | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    origin = http1.Origin(parts.scheme, parts.hostname or "", port)
    deadline = http1.Deadline(_TIMEOUT_SECONDS)
    pool = http1.Pool(None, _TIMEOUT_SECONDS, 0)
    connection = pool.take(origin, deadline)
    try:
        request = (
            f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {origin.authority}\r\nUser-Agent: perago\r\nConnection: close\r\n\r\n"
        )
        connection.send(request.encode(), deadline)
        written = connection.head(deadline).headers.get("date", "")
    finally:
        pool.give(connection)
    try:
        return parsedate_to_datetime(written).timestamp()
    except ValueError:
        return None
