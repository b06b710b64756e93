"""Stop requests of a worker: the first signal drains, the second stops hard, the third kills the executors."""

import asyncio
import time
from collections.abc import Callable
from typing import Any


class Shutdown:
    """`draining` and `hard` are futures, so that every wait can include them. `kill` kills the executors."""

    def __init__(self, kill: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.draining: asyncio.Future[None] = loop.create_future()
        self.hard: asyncio.Future[None] = loop.create_future()
        self.hard_since = float("inf")
        """By the monotonic clock."""
        self._kill = kill

    @property
    def is_draining(self) -> bool:
        return self.draining.done()

    @property
    def is_hard(self) -> bool:
        return self.hard.done()

    def on_signal(self) -> None:
        """Called in the loop, not in the signal handler itself."""
        if not self.is_draining:
            self.drain()
        elif not self.is_hard:
            self.stop_hard()
        else:
            self._kill()

    def drain(self) -> None:
        """Take no new task; finish and report the running attempts."""
        if not self.draining.done():
            self.draining.set_result(None)

    def stop_hard(self) -> None:
        """Cancel the running attempts and report them."""
        self.drain()
        if not self.hard.done():
            self.hard_since = time.monotonic()
            self.hard.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Returns early when the worker drains."""
        if seconds > 0:
            await asyncio.wait({self.draining}, timeout=seconds)

    async def until_done_or_hard(self, work: "asyncio.Future[Any]", within: float | None) -> None:
        """Wait for the work; stop hard after another signal, or when `within` seconds have passed."""
        await asyncio.wait({work, self.hard}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self.stop_hard()
