"""Subjects that are looked at again and again, each when it is due, one after the other."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

SubjectT = TypeVar("SubjectT", bound=Hashable)


@dataclass
class Watchlist(Generic[SubjectT]):
    """`look` returns after how many seconds it wants to be called again for the subject; None ends the watch."""

    look: Callable[[SubjectT], Awaitable[float | None]]
    clock: Callable[[], float] = time.monotonic
    _due: dict[SubjectT, float] = field(default_factory=dict[SubjectT, float])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __contains__(self, subject: SubjectT) -> bool:
        return subject in self._due

    def add(self, subject: SubjectT, seconds: float) -> None:
        """Look at it after so many seconds, unless it is on the list already."""
        if subject not in self._due:
            self._due[subject] = self.clock() + seconds
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._until_due()
            now = self.clock()
            for subject in [subject for subject, due in self._due.items() if due <= now]:
                seconds = await self.look(subject)
                if seconds is None:
                    del self._due[subject]
                else:
                    self._due[subject] = self.clock() + seconds

    async def _until_due(self) -> None:
        self._changed.clear()
        due = min(self._due.values(), default=None)
        timeout = None if due is None else max(0.0, due - self.clock())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return
