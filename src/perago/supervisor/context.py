"""What slots, attempts and reports of one worker share."""

import asyncio
import traceback
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from perago import ipc
from perago.supervisor import recorder
from perago.supervisor.blocking_calls import BlockingCalls
from perago.supervisor.shutdown import Shutdown


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """`group` owns the slot loops and everything that `start` starts: the worker has drained when all of it has ended."""

    calls: BlockingCalls
    tasks: Mapping[str, ipc.TaskFacts]
    observe: recorder.Observe
    shutdown: Shutdown
    group: asyncio.TaskGroup

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[None]":
        """Run it beside the slots."""
        return self.group.create_task(log_defects(work, self.observe))


async def log_defects(work: Coroutine[Any, Any, Any], observe: recorder.Observe) -> None:
    """A defect in background work is logged: it must not cancel the attempts of all slots."""
    try:
        await work
    except Exception:  # noqa: BLE001  logged with its traceback
        observe(recorder.BackgroundFailed(work.__qualname__, traceback.format_exc()))
