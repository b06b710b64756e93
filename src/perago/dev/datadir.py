"""The directory that holds both servers' state: one stack at a time, temporary unless a person names one."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perago.dev import credentials
from perago.dev.credentials import Credentials
from perago.errors import DevStackError
from perago.process.child_process import Command
from perago.process.lock_file import LockFile
from perago.provision.cache import told_plainly

_LOCK = "lock"
_NEEDED = 256 << 20


@dataclass(frozen=True, slots=True)
class DataDir:
    """Locked for as long as this process, or a server that it started, lives."""

    path: Path
    lock: LockFile
    temporary: bool
    credentials: Credentials

    def command(self, name: str) -> Command:
        """Where a server of that name works, without its command line yet."""
        directory = self.path / name
        directory.mkdir(exist_ok=True)
        log = self.path / f"{name}.log"
        if not self.temporary:
            return Command((), directory, log, lock_fd=self.lock.descriptor)
        kept = self.path.with_name(f"{self.path.name}-{name}.log")
        return Command((), directory, log, lock_fd=self.lock.descriptor, remove=self.path, keep_log=kept)

    def close(self) -> None:
        """Lets go of it; a temporary one disappears."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


def acquire(wanted: Path | None) -> DataDir:
    """Takes the named directory, or a fresh temporary one."""
    with told_plainly("preparing the data directory", wanted or Path(tempfile.gettempdir())):
        if wanted is not None:
            return _acquire(wanted.absolute(), temporary=False)
        path = Path(tempfile.mkdtemp(prefix="perago-dev-"))
        try:
            return _acquire(path, temporary=True)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _acquire(path: Path, *, temporary: bool) -> DataDir:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (path / _LOCK).exists() and any(path.iterdir()):
        raise DevStackError(f"{path} is not empty and was not made by perago dev; name an empty or a new directory")
    _check_space(path)
    lock = _take(path)
    try:
        return DataDir(path, lock, temporary, credentials.load_or_make(path / "credentials.json"))
    except BaseException:
        lock.close()
        raise


def _check_space(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < _NEEDED:
        raise DevStackError(
            f"the data directory {path} needs {_NEEDED >> 20} MiB of free disk and has {free >> 20} MiB; "
            "free some space or name a directory on another disk with --data-dir"
        )


def _take(path: Path) -> LockFile:
    try:
        lock = LockFile(path / _LOCK)
    except BlockingIOError as error:
        owner = (path / _LOCK).read_text(errors="replace") or "unknown"
        raise DevStackError(
            f"the data directory {path} is in use by another perago dev (process {owner}); stop it or name another"
        ) from error
    lock.write(str(os.getpid()).encode())
    return lock
