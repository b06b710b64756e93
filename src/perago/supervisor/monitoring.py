"""What a worker shows of itself: its status file, metrics and health checks."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from perago.supervisor.health_server import HealthServer, Readiness, readiness
from perago.supervisor.logs import Logger
from perago.supervisor.metrics import Metrics
from perago.supervisor.recorder import Recorder
from perago.supervisor.shutdown import Shutdown
from perago.supervisor.slot import Slot
from perago.supervisor.status import StatusFile

STATUS_SECONDS = 1.0


@dataclass(slots=True)
class Monitoring:
    """`slots` is the supervisor's own list, which grows while the worker starts."""

    modules: Sequence[str]
    slots: Sequence[Slot]
    shutdown: Shutdown
    recorder: Recorder
    metrics: Metrics
    log: Logger
    is_serving: bool = False
    all_need_lakefs: bool = False
    _started_at: float = field(default_factory=time.time)

    @property
    def busy(self) -> int:
        return sum(slot.attempt is not None for slot in self.slots)

    @contextlib.asynccontextmanager
    async def health_server(self, host: str, port: int | None) -> AsyncGenerator[None]:
        """Serve metrics and health checks; without a port, nothing."""
        if port is None:
            yield
            return
        server = HealthServer(self._render_metrics, self._readiness)
        bound = await server.start(host, port)
        self.log.info("serving metrics and health checks", port=bound)
        try:
            yield
        finally:
            await server.close()

    async def write_status(self, status: StatusFile) -> None:
        while True:
            await asyncio.to_thread(status.write, self._state())
            await asyncio.sleep(STATUS_SECONDS)

    def _state(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": self._started_at,
            "modules": list(self.modules),
            "state": "stopping" if self.shutdown.is_draining else "serving",
            "conductor_is_up": self.recorder.conductor_is_up,
            "lakefs_is_up": self.recorder.lakefs_is_up,
            "slots": [slot.describe() for slot in self.slots],
            "recent": list(self.recorder.recent),
        }

    def _render_metrics(self) -> bytes:
        self.metrics.slots(self.busy, len(self.slots))
        return self.metrics.render()

    def _readiness(self) -> Readiness:
        return readiness(
            is_starting=not self.is_serving,
            is_stopping=self.shutdown.is_draining,
            conductor_is_up=self.recorder.conductor_is_up,
            can_run=any(slot.can_run for slot in self.slots),
            lakefs_is_up=self.recorder.lakefs_is_up,
            all_need_lakefs=self.all_need_lakefs,
        )
