"""Deletes kept attempts whose time is over, in every repository that the tasks of this worker use, whichever worker kept them.

What is left when no such worker runs is found by `perago gc`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from perago.attempt import branch_gc, kept_gc
from perago.conductor.port import Polled
from perago.errors import LakeError
from perago.lake.port import Lake
from perago.model import Repository
from perago.settings import Settings
from perago.supervisor.context import BlockingCalls
from perago.supervisor.watchlist import Watchlist

SHORTEST_SECONDS = 1.0
"""Between two listings of a repository."""


@dataclass
class KeptCollector:
    """`log` is called with a line and its fields. `interval` is the longest time between two listings of a repository."""

    calls: BlockingCalls
    lake: Lake
    log: Callable[..., object]
    interval: float
    now: Callable[[], float] = time.time
    _watched: Watchlist[Repository] = field(init=False)

    def __post_init__(self) -> None:
        self._watched = Watchlist(self._collect)

    def watch(self, polled: Polled) -> None:
        """Remember the repository of the task's workspace."""
        match polled.input.get("workspace"):
            case {"repository": str(repository)} if repository:
                self._watched.add(Repository(repository), SHORTEST_SECONDS)
            case _:
                return

    async def run(self) -> None:
        await self._watched.run()

    async def _collect(self, repository: Repository) -> float:
        """Delete what is due, and come back when the next one is."""
        try:
            found = await self.calls.run(self._delete, repository)
        except LakeError:
            # Tried again later; logs and metrics have their own reports about a server that does not answer.
            return self.interval
        if deleted := sum(one.is_deleted for one in found):
            self.log("deleted kept attempts whose time is over", repository=repository, count=deleted)
        left = [max(SHORTEST_SECONDS, one.name.until - self.now()) for one in found if one.orphaned is None]
        return min([self.interval, *left])

    def _delete(self, repository: Repository) -> list[kept_gc.KeptFinding]:
        found = kept_gc.find(self.lake, repository, now=self.now())
        return list(branch_gc.delete(self.lake, repository, found))


def interval(settings: Settings) -> float:
    """No longer than this worker keeps an attempt itself."""
    return max(SHORTEST_SECONDS, min(settings.perago_workspace_gc_interval, settings.perago_keep_failed or float("inf")))
