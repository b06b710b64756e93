"""What a killed warden leaves comes to the supervisor, which ends it. Wardens are known here from their start to their end."""

import asyncio
import contextlib
import os
import time

from perago.process import executor_guardian

ENDING_SECONDS = 2.0


class Orphanage:
    """One per supervisor, whose only other children are those that it had before."""

    def __init__(self) -> None:
        executor_guardian.adopt_orphans()
        self._spared = set(executor_guardian.descendants(os.getpid()))

    def started(self, pid: int) -> None:
        self._spared.add(pid)

    def ended(self, pid: int) -> None:
        self._spared.discard(pid)

    async def clear(self) -> None:
        """After a warden that did not end by itself: all that has no warden any more."""
        deadline = time.monotonic() + ENDING_SECONDS
        while (orphans := executor_guardian.descendants(os.getpid(), spared=self._spared)) and time.monotonic() < deadline:
            executor_guardian.kill(orphans)
            _reap(orphans)
            await asyncio.sleep(0.01)


def _reap(pids: list[int]) -> None:
    for pid in pids:
        # Not ours to wait for unless its own parent has ended.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
