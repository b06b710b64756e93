"""The directory with the state and credentials of both servers, used by one stack at a time; temporary unless it is named."""

import json
import os
import secrets
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from perago.errors import DevStackError
from perago.process.child_process import Command
from perago.process.lock_file import LockFile, is_locked
from perago.provision.artifact_cache import explained_os_errors

_LOCK = "lock"
_NEEDED = 256 << 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """lakeFS administrator keys, and the key with which lakeFS encrypts its own records."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    encryption_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Locked until this process and the servers that it started have ended."""

    path: Path
    lock: LockFile
    temporary: bool
    credentials: Credentials

    def command(self, name: str) -> Command:
        """The command of a server, with its directory, log and lock, and without its command line."""
        directory = self.path / name
        directory.mkdir(exist_ok=True)
        log = self.path / f"{name}.log"
        if not self.temporary:
            return Command((), directory, log, lock_fd=self.lock.descriptor)
        kept = self.path.with_name(f"{self.path.name}-{name}.log")
        return Command((), directory, log, lock_fd=self.lock.descriptor, remove=self.path, keep_log=kept)

    def close(self) -> None:
        """Releases the lock; a temporary directory is removed."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


def acquire(wanted: Path | None) -> DataDirectory:
    """Locks the named directory, or a new temporary one."""
    with explained_os_errors("preparing the data directory", wanted or Path(tempfile.gettempdir())):
        if wanted is not None:
            return _acquire(wanted.absolute(), temporary=False)
        path = Path(tempfile.mkdtemp(prefix="perago-dev-"))
        try:
            return _acquire(path, temporary=True)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def holder(path: Path) -> str | None:
    """The process id of the `perago dev` that uses this data directory, None if none does."""
    try:
        return (path / _LOCK).read_text(errors="replace") if is_locked(path / _LOCK) else None
    except OSError:
        return None


def _acquire(path: Path, *, temporary: bool) -> DataDirectory:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (path / _LOCK).exists() and any(path.iterdir()):
        raise DevStackError(f"{path} is not empty and was not made by perago dev; name an empty or a new directory")
    _check_space(path)
    lock = _lock(path)
    try:
        return DataDirectory(path, lock, temporary, _load_or_create_credentials(path / "credentials.json"))
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


def _lock(path: Path) -> LockFile:
    try:
        lock = LockFile(path / _LOCK)
    except BlockingIOError as error:
        owner = (path / _LOCK).read_text(errors="replace") or "unknown"
        raise DevStackError(
            f"the data directory {path} is in use by another perago dev (process {owner}); stop it or name another"
        ) from error
    lock.write(str(os.getpid()).encode())
    return lock


def _load_or_create_credentials(path: Path) -> Credentials:
    """Reads the file, or creates it with random content, readable by its owner only."""
    try:
        return Credentials(**json.loads(path.read_text()))
    except FileNotFoundError:
        return _create_credentials(path)
    except (ValueError, TypeError) as error:
        raise DevStackError(f"{path} is damaged; remove its data directory or restore the file") from error


def _create_credentials(path: Path) -> Credentials:
    fresh = Credentials(f"PERAGO{secrets.token_hex(7).upper()}", secrets.token_urlsafe(30), secrets.token_hex(32))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        json.dump(asdict(fresh), handle)
    return fresh
