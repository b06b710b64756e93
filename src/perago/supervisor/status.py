"""What a running worker shows of itself: a file that it keeps fresh, and a lock on another that the kernel drops with it."""

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = ".workers"


@dataclass(frozen=True, slots=True)
class Shown:
    """A worker that lives, and what it last said of itself, `age` seconds ago."""

    pid: int
    state: dict[str, Any]
    age: float


class StatusFile:
    def __init__(self, log_root: Path) -> None:
        self._directory = log_root / DIRECTORY
        self._writing = threading.Lock()
        self._is_closed = False
        self._state = self._directory / f"{os.getpid()}.json"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._directory / f"{os.getpid()}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, state: dict[str, Any]) -> None:
        """Replaced whole, so that a reader never sees half of it. A disk that is full costs the view, not the worker."""
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
        os.close(self._lock)


def living(log_root: Path) -> list[Shown]:
    """All workers of this log root whose lock is held; what dead ones left is removed."""
    return [shown for lock in sorted((log_root / DIRECTORY).glob("*.lock")) for shown in _look(lock)]


def _look(lock: Path) -> Iterator[Shown]:
    state = lock.with_suffix(".json")
    try:
        if not _is_held(lock):
            for suffix in (".new", ".json", ".lock"):
                lock.with_suffix(suffix).unlink(missing_ok=True)
            return
        yield Shown(int(lock.stem), json.loads(state.read_text()), time.time() - state.stat().st_mtime)
    except (OSError, ValueError):
        # It has just begun or just ended.
        return


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
