"""Runs blocking calls in threads, so that the event loop goes on extending leases."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from perago.conductor import port

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BlockingCalls:
    """The Conductor client and the threads that its calls run in. A call that began is never abandoned: it may have an effect."""

    conductor: port.Conductor
    pool: ThreadPoolExecutor

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.pool, functools.partial(function, *args, **kwargs))
