"""Kills what a killed guardian leaves behind: the kernel makes those processes children of the supervisor."""

import asyncio
import contextlib
import os
import time

from perago.process import guardian

KILL_SECONDS = 2.0


class OrphanReaper:
    """One per supervisor. Spares the guardians that are running, and the children that the supervisor had before."""

    def __init__(self) -> None:
        guardian.adopt_orphans()
        self._spared = set(guardian.descendants(os.getpid()))

    def spare(self, pid: int) -> None:
        """Do not kill this guardian, which was started, and its descendants."""
        self._spared.add(pid)

    def forget(self, pid: int) -> None:
        """No longer spare a guardian that has ended."""
        self._spared.discard(pid)

    async def kill_orphans(self) -> None:
        """Kill every process that no longer has a guardian. Called after a guardian was killed."""
        deadline = time.monotonic() + KILL_SECONDS
        while (orphans := guardian.descendants(os.getpid(), spared=self._spared)) and time.monotonic() < deadline:
            guardian.kill(orphans)
            _reap(orphans)
            await asyncio.sleep(0.01)


def _reap(pids: list[int]) -> None:
    for pid in pids:
        # Only a child can be waited for; a grandchild becomes one when its parent has ended.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
