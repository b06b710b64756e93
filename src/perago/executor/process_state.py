"""State of the process that a body may change: captured before the first attempt, restored after each."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE)


@dataclass(frozen=True, slots=True)
class ProcessState:
    directory: str
    umask: int
    environment: Mapping[str, str]
    handlers: Mapping[signal.Signals, Any]


def capture() -> ProcessState:
    mask = os.umask(0o077)
    os.umask(mask)
    return ProcessState(
        directory=os.getcwd(),  # noqa: PTH109  text, as chdir takes it
        umask=mask,
        environment=dict(os.environ),
        handlers={number: signal.getsignal(number) for number in _SIGNALS},
    )


def threads() -> frozenset[int]:
    """The ids of the running threads, so that a thread that one body left is not reported for the next."""
    return frozenset(thread.ident or 0 for thread in threading.enumerate())


def restore(before: ProcessState, running: frozenset[int]) -> list[str]:
    """Restore the state. Returns a line for each thing that was restored or cannot be, such as threads not in `running`."""
    found = [*_directory(before), *_environment(before), *_handlers(before)]
    os.umask(before.umask)
    for stream in (sys.stdout, sys.stderr):
        _flush(stream)
    left = [thread.name for thread in threading.enumerate() if thread.ident not in running and not thread.daemon]
    return found + ([f"the body left threads running: {', '.join(left)}"] if left else [])


def _directory(before: ProcessState) -> list[str]:
    try:
        if os.getcwd() == before.directory:  # noqa: PTH109  as above
            return []
    except FileNotFoundError:
        # The body changed into its workspace, which is removed by now.
        pass
    os.chdir(before.directory)
    return ["the body changed the working directory"]


def _environment(before: ProcessState) -> list[str]:
    if dict(os.environ) == before.environment:
        return []
    os.environ.clear()
    os.environ.update(before.environment)
    return ["the body changed environment variables"]


def _handlers(before: ProcessState) -> list[str]:
    changed = [number for number, handler in before.handlers.items() if signal.getsignal(number) is not handler]
    for number in changed:
        signal.signal(number, before.handlers[number])
    return [f"the body set signal handlers: {', '.join(number.name for number in changed)}"] if changed else []


def _flush(stream: Any) -> None:
    # The body may have closed or replaced it.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        stream.flush()
