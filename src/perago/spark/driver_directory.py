"""The directory of a driver on this host, locked while the process lives; directories of dead processes are removed."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perago.errors import RuntimeConfigError

_PREFIX = "driver-"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class DriverDirectory:
    path: Path
    _lock: int

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def create(scratch: Path) -> DriverDirectory:
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        sweep(scratch)
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=scratch))
        # Close-on-exec: only this process holds it, not the driver that it starts.
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise RuntimeConfigError(f"cannot use {scratch} for Spark's files: {error.strerror}") from error
    return DriverDirectory(path, lock)


def sweep(scratch: Path) -> None:
    for found in scratch.glob(f"{_PREFIX}*"):
        if _is_abandoned(found / _LOCK):
            shutil.rmtree(found, ignore_errors=True)


def _is_abandoned(lock: Path) -> bool:
    """One without a lock is just being made."""
    with contextlib.suppress(OSError):
        descriptor = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True
    return False
