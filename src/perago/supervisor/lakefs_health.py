"""While lakeFS does not respond, tasks that need it are not polled: each would fail and use up a retry."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from perago import ipc
from perago.http.failure import ConnectionBroken
from perago.http.fetch import fetch
from perago.model import LakeAccess, TaskType
from perago.process import waiting
from perago.supervisor import recorder
from perago.supervisor.context import BlockingCalls
from perago.supervisor.poller import SERVER_BACKOFF, Poller

PROBE_SECONDS = 3.0
CHECK_SECONDS = 5.0
"""Time between two probes while nothing fails: an outage is noticed before an attempt needs lakeFS."""
_SERVER_ERROR = 500


def answers(url: str) -> bool:
    """Whether lakeFS replies at all. Attempts find out whether it accepts their requests."""
    parts = urlsplit(url)
    try:
        reply = fetch(f"{parts.scheme}://{parts.netloc}/_health", timeout=PROBE_SECONDS)
    except ConnectionBroken:
        return False
    return reply.status < _SERVER_ERROR


@dataclass
class LakefsHealth:
    """`probe` blocks and returns whether lakeFS responds; `task_types` are those that need it."""

    calls: BlockingCalls
    poller: Poller
    task_types: Sequence[TaskType]
    probe: Callable[[], bool]
    observe: recorder.Observe
    is_up: bool = True
    _requested: asyncio.Event = field(default_factory=asyncio.Event)

    def check_soon(self) -> None:
        """A task that needs lakeFS failed: check whether lakeFS is the reason."""
        self._requested.set()

    async def run(self) -> None:
        """A background task of the worker, cancelled when the worker has stopped."""
        while True:
            await waiting.is_set_within(self._requested, CHECK_SECONDS)
            await self.check()
            self._requested.clear()

    async def check(self) -> None:
        """Probe lakeFS until it responds, and pause polling in the meantime."""
        failures = 0
        while not await self.calls.run(self.probe):
            failures += 1
            if self.is_up:
                self._set(up=False)
                self.observe(recorder.LakefsFailed())
            await asyncio.sleep(SERVER_BACKOFF.pause(failures))
        if not self.is_up:
            self._set(up=True)
            self.observe(recorder.LakefsAnswered())

    def _set(self, *, up: bool) -> None:
        self.is_up = up
        self.poller.pause(self.task_types, paused=not up)


def of_worker(
    calls: BlockingCalls, poller: Poller, tasks: Sequence[ipc.TaskFacts], access: LakeAccess | None, observe: recorder.Observe
) -> LakefsHealth | None:
    """None if no task of the worker needs lakeFS."""
    types = [TaskType(task.task_type) for task in tasks if task.needs_lake]
    if access is None or not types:
        return None
    return LakefsHealth(calls, poller, types, lambda: answers(access.url), observe)
