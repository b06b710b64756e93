"""The directory of a driver on this host, locked while the process lives; directories of dead processes are removed."""

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perago.errors import RuntimeConfigError
from perago.process import lock_file
from perago.process.lock_file import LockFile

_PREFIX = "driver-"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class DriverDirectory:
    path: Path
    _lock: LockFile

    def close(self) -> None:
        _remove(self.path)
        self._lock.close()


def create(scratch: Path) -> DriverDirectory:
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        sweep(scratch)
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=scratch))
        # Close-on-exec: only this process holds it, not the driver that it starts.
        # Waits: another process that removes abandoned directories may hold it for a moment.
        lock = LockFile(path / _LOCK, wait=True)
    except OSError as error:
        raise RuntimeConfigError(f"cannot use {scratch} for Spark's files: {error.strerror}") from error
    return DriverDirectory(path, lock)


def sweep(scratch: Path) -> None:
    """Remove the directories of processes that have ended."""
    for found in scratch.glob(f"{_PREFIX}*"):
        if _is_abandoned(found / _LOCK):
            _remove(found)


def _remove(path: Path) -> None:
    """The lock file last: what could not be removed now is found again by the next `sweep`."""
    with contextlib.suppress(OSError):
        for one in path.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            elif one.name != _LOCK:
                one.unlink()
        (path / _LOCK).unlink()
        path.rmdir()


def _is_abandoned(lock: Path) -> bool:
    """A directory without a lock file is just being created."""
    with contextlib.suppress(OSError):
        return not lock_file.is_locked(lock)
    return False
