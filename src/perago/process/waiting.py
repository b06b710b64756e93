"""Waits in an event loop that an event ends early.

In threads, `threading.Event.wait` does the same; a main thread with signal handlers uses `StopRequest.wait`.
"""

import asyncio
import contextlib


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Waits at most that long until the event is set; returns whether it is set."""
    if seconds > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
