"""What slots, attempts and reports of a worker share: threads for blocking calls, background tasks and the event stream."""

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

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OnPolled = Callable[[port.Polled], None]


@dataclass(frozen=True, slots=True)
class BlockingCalls:
    """The Conductor client and the threads that run its calls, so that these do not block the event loop.

    A call that has started always runs to its end, because it may have an effect.
    """

    conductor: port.Conductor
    pool: ThreadPoolExecutor

    async def run(self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.pool, functools.partial(function, *args, **kwargs))


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """`group` owns the slot loops and all tasks that `start` creates: the worker has drained when they have ended."""

    calls: BlockingCalls
    tasks: Mapping[str, ipc.TaskFacts]
    observe: recorder.Observe
    shutdown: Shutdown
    group: asyncio.TaskGroup
    on_polled: OnPolled = lambda _polled: None
    """Called for each task before it is run."""

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[None]":
        """Run a coroutine in the background."""
        return self.group.create_task(log_defects(work, self.observe))


async def log_defects(work: Coroutine[Any, Any, Any], observe: recorder.Observe) -> None:
    """Log an exception of background work; if it were raised, it would cancel the attempts of all slots."""
    try:
        await work
    except Exception:  # noqa: BLE001  logged with its traceback
        observe(recorder.BackgroundFailed(work.__qualname__, traceback.format_exc()))
