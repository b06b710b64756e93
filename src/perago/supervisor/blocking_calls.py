"""Blocking calls, made in threads on behalf of the loop. A call that was begun is never abandoned: its effect may still come."""

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
class Desk:
    """Conductor, and the threads that wait for it."""

    conductor: port.Conductor
    pool: ThreadPoolExecutor

    async def call(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.pool, functools.partial(function, *args, **kwargs))
