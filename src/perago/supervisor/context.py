"""What slots, attempts and reports of one worker share: threads for blocking calls, background tasks and the event stream."""

import asyncio
import functools
import traceback
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from perago import ipc
from perago.conductor import port
from perago.supervisor import recorder
from perago.supervisor.shutdown import Shutdown

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BlockingCalls:
    """The Conductor client and the threads that its calls run in, so that the event loop goes on extending leases.

    A call that began is never abandoned: it may have an effect.
    """

    conductor: port.Conductor
    pool: ThreadPoolExecutor

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.pool, functools.partial(function, *args, **kwargs))


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
