"""Waits at the start of a worker for servers that do not answer yet."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from perago import human_units
from perago.errors import ConductorError, ConductorUnavailable, LakeUnavailable, PeragoError, SetupError
from perago.process.backoff import Backoff
from perago.supervisor import logs

WAIT_BACKOFF = Backoff(first=0.25, longest=5.0, jitter=(0.5, 1.0))


async def until_up(check: Callable[[], Awaitable[None]], wait: float, log: logs.Logger) -> None:
    """Repeat the check for `wait` seconds while a server is away; logs once per server. Raises the error of the last check."""
    give_up_at = time.monotonic() + wait
    reported: set[str] = set()
    failures = 0
    while (error := await _failure(check)) is not None:
        left = give_up_at - time.monotonic()
        if left <= 0:
            raise error
        server = away(error)
        if server not in reported:
            reported.add(server)
            event = f"waiting for {server}"
            log.warning(event, at_most=human_units.show_seconds(wait), error=str(error))
        failures += 1
        await asyncio.sleep(min(left, WAIT_BACKOFF.pause(failures)))


async def _failure(check: Callable[[], Awaitable[None]]) -> PeragoError | None:
    """The error, if a server is away. Any other error, such as refused credentials, is raised: waiting does not help."""
    try:
        await check()
    except (SetupError, ConductorError) as error:
        if not away(error):
            raise
        return error
    return None


def away(error: PeragoError) -> str:
    """The server that does not answer, if that is the error; otherwise an empty text."""
    if isinstance(error, ConductorUnavailable):
        return "Conductor"
    return "lakeFS" if isinstance(error.__cause__, LakeUnavailable) else ""
