"""Records the requests that the processes of a worker send; installed by their task module and by their command line."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _switches

from perago.http.client import HttpClient
from perago.http.request import HttpRequest

VARIABLE = "BENCH_REQUESTS"
"""Names the directory of the records: one file per process."""


@dataclass(frozen=True)
class SentRequest:
    """`began` is a time of the wall clock, in seconds, which all processes of the machine share."""

    began: float
    seconds: float
    text: str
    """Method, path and query."""


def install() -> None:
    """Record all further requests of this process, if the environment asks for it."""
    if VARIABLE not in os.environ:
        return
    file = (Path(os.environ[VARIABLE]) / f"{os.getpid()}.jsonl").open("a", buffering=1)
    once: Callable[..., Any] = HttpClient.once

    def recorded(client: HttpClient, request: HttpRequest, *arguments: Any) -> Any:
        began, started = time.time(), time.monotonic()
        try:
            return once(client, request, *arguments)
        finally:
            file.write(json.dumps((began, time.monotonic() - started, f"{request.method} {request.target}")) + "\n")

    _switches.put(HttpClient, "once", recorded)


def read(directory: Path) -> Sequence[SentRequest]:
    """All requests so far, in the order in which they began."""
    lines = [line for file in directory.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted((SentRequest(*json.loads(line)) for line in lines), key=lambda sent: sent.began)
