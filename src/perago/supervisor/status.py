"""The status file of a running worker, and a lock file that the kernel releases when the worker ends."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago.process.lock_file import LockFile, is_locked

DIRECTORY = ".workers"


DEAD_SECONDS = 3600.0
"""How long a worker that died is shown."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker, and the state that it wrote `age` seconds ago. One that was stopped has none; one that died has its last."""

    pid: int
    state: dict[str, Any]
    age: float
    is_running: bool


class StatusFile:
    def __init__(self, log_root: Path) -> None:
        self._directory = log_root / DIRECTORY
        self._writing = threading.Lock()
        self._is_closed = False
        self._state = self._directory / f"{os.getpid()}.json"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = LockFile(self._directory / f"{os.getpid()}.lock")

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file as a whole, so that a reader never sees half of it. Errors, such as a full disk, are ignored."""
        fresh = self._state.with_suffix(".new")
        with self._writing, contextlib.suppress(OSError):
            if not self._is_closed:
                fresh.write_text(json.dumps(state, default=str))
                fresh.replace(self._state)

    def close(self) -> None:
        with self._writing:
            self._is_closed = True
        for suffix in (".new", ".json", ".lock"):
            path = self._state.with_suffix(suffix)
            with contextlib.suppress(OSError):
                path.unlink()
        self._lock.close()


def running_workers(log_root: Path) -> list[WorkerState]:
    """All workers of this log root whose lock is held."""
    return [worker for worker in all_workers(log_root) if worker.is_running]


def all_workers(log_root: Path) -> list[WorkerState]:
    """The running workers of this log root, and those that died not long ago; files of other dead ones are removed."""
    return [worker for lock in sorted((log_root / DIRECTORY).glob("*.lock")) for worker in _read(lock)]


def _read(lock: Path) -> Iterator[WorkerState]:
    state = lock.with_suffix(".json")
    try:
        is_running = is_locked(lock)
        age = time.time() - state.stat().st_mtime if is_running or state.exists() else DEAD_SECONDS
        if not is_running and age >= DEAD_SECONDS:
            for suffix in (".new", ".json", ".lock"):
                lock.with_suffix(suffix).unlink(missing_ok=True)
            return
        yield WorkerState(int(lock.stem), json.loads(state.read_text()), age, is_running)
    except (OSError, ValueError):
        # It has just started or just ended.
        return
