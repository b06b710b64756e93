"""While lakeFS is away, tasks that need it are not taken: each would fail and spend a retry for nothing."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch
from perago.model import TaskType
from perago.supervisor import logs
from perago.supervisor.blocking_calls import Desk
from perago.supervisor.poller import Polling, pause_after

PROBE_SECONDS = 3.0
_SERVER_ERROR = 500


def answers(url: str) -> bool:
    """Whether lakeFS replies at all; whether it accepts our requests is for the attempts to find out."""
    parts = urlsplit(url)
    try:
        reply = fetch(f"{parts.scheme}://{parts.netloc}/_health", timeout=PROBE_SECONDS)
    except ConnectionBroken:
        return False
    return reply.status < _SERVER_ERROR


@dataclass
class LakeWatch:
    desk: Desk
    polling: Polling
    task_types: Sequence[TaskType]
    probe: Callable[[], bool]
    log: logs.Logger
    stopping: asyncio.Event
    is_up: bool = True
    _looking: asyncio.Task[None] | None = field(default=None)

    def doubt(self) -> None:
        """A task that needs lakeFS failed: look whether lakeFS is the reason."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        if self._looking is not None:
            await self._looking

    async def _look(self) -> None:
        failures = 0
        while not await self.desk.call(self.probe) and not self.stopping.is_set():
            failures += 1
            if self.is_up:
                self._set(up=False)
                self.log.error("lakeFS does not answer; tasks that need it are not taken until it does")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), pause_after(failures))
        if not self.is_up and not self.stopping.is_set():
            self._set(up=True)
            self.log.info("lakeFS answers again")

    def _set(self, *, up: bool) -> None:
        self.is_up = up
        for task_type in self.task_types:
            self.polling.hold(task_type, held=not up)
