"""Attempt directories: made for one execution, owned by a kernel lock, checked before anything is published from them, removed.

<root>/<task id>-<execution id>/     0700, ours
    .perago-attempt.json             who made it; the lock on it dies with the executor
    work/                            what the body gets; nothing of ours is in it
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from perago.errors import WorkspaceError
from perago.model import MARKER_NAME, Attempt, ExecutionId
from perago.workspace import rmtree

WORK = "work"
_UNFINISHED = ".new-"
"""Directories carry this prefix until marker and lock are in place, so that a sweep never meets one that looks abandoned."""
_UNFINISHED_SECONDS = 60
"""Making one takes no time. Whoever was held up for so long in it fails, and the next attempt makes another."""
_MAX_ID = 96
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_lock_descriptors: set[int] = set()


def _close_locks_in_child() -> None:
    """A process that the body forks must not keep the executor's lock alive after the executor is gone."""
    for descriptor in _lock_descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _lock_descriptors.clear()


os.register_at_fork(after_in_child=_close_locks_in_child)


class AttemptDirectory:
    """One execution's directory; `work` is the body's part of it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.work = path / WORK
        self._lock = lock
        self._lock_identity = _identity(os.fstat(lock))
        # Held open, because a directory made in the place of a removed one gets its inode number otherwise.
        self._work_handle = os.open(self.work, _DIRECTORY)
        self._work_identity = _identity(os.fstat(self._work_handle))
        _lock_descriptors.add(lock)

    def verify(self) -> None:
        """The directory is still the one we made, ours, readable and marked. Otherwise nothing in it can be believed."""
        try:
            status = self.work.lstat()
            marker = (self.path / MARKER_NAME).lstat()
        except OSError as fault:
            raise _untrusted(self.work, f"it or its marker is gone ({fault.strerror})") from fault
        if stat.S_ISLNK(status.st_mode):
            raise _untrusted(self.work, "it was turned into a symlink")
        if _identity(status) != self._work_identity:
            raise _untrusted(self.work, "it was replaced")
        if _identity(marker) != self._lock_identity:
            raise _untrusted(self.work, "its marker was replaced")
        if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            raise _untrusted(self.work, f"its mode became {stat.filemode(status.st_mode)}")

    def remove(self) -> str | None:
        """Delete everything and give up the lock; what stayed behind and why, or None."""
        if self._lock < 0:
            return None
        left = _remove_owned(self.path)
        _lock_descriptors.discard(self._lock)
        os.close(self._lock)
        os.close(self._work_handle)
        self._lock = -1
        return left


def create(root: Path, attempt: Attempt, execution_id: ExecutionId) -> AttemptDirectory:
    """Absolute, because a body may change the working directory."""
    root, name = root.absolute(), directory_name(attempt.task_id, execution_id)
    unfinished, path = root / (_UNFINISHED + name), root / name
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        (unfinished / WORK).mkdir(mode=0o700)
        lock = _locked_marker(unfinished / MARKER_NAME, attempt, execution_id)
    except OSError as fault:
        raise WorkspaceError(f"cannot make the attempt directory {path}: {fault.strerror}") from fault
    try:
        unfinished.rename(path)
        return AttemptDirectory(path, lock)
    except OSError as fault:
        os.close(lock)
        raise WorkspaceError(f"cannot make the attempt directory {path}: {fault.strerror}") from fault


def directory_name(task_id: str, execution_id: str) -> str:
    return f"{_safe(task_id)}-{_safe(execution_id)}"


def _safe(identifier: str) -> str:
    """As it is where a file name can hold it; otherwise recognisable, and still different from every other."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", identifier) and len(identifier) <= _MAX_ID:
        return identifier
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", identifier)[:32]
    return f"{readable}_{sha256(identifier.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _locked_marker(path: Path, attempt: Attempt, execution_id: ExecutionId) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = {"pid": os.getpid(), "started_at": time.time(), "execution_id": execution_id, "attempt": asdict(attempt)}
        os.write(descriptor, json.dumps(content, indent=1).encode())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def sweep(root: Path, older_than_seconds: float = 0.0) -> list[Path]:
    """Remove the directories whose executor is gone, if they are at least that old; those that were removed.

    Only directories with our marker count, and only those whose lock is free: others are alive or not ours.
    """
    newest = time.time() - older_than_seconds
    removed = [path for path in _attempts(root) if _age_mark(path) <= newest and _collect(path)]
    _sweep_unfinished(root)
    return removed


def collect(root: Path, execution_id: ExecutionId) -> bool:
    """Remove what a dead executor left of one execution; False if there is nothing or its lock is still held."""
    ending = "-" + _safe(execution_id)
    for path in _directories(root):
        if path.name.endswith(ending) and path.name.startswith(_UNFINISHED):
            rmtree.remove_tree(path)
    return any(_collect(path) for path in _attempts(root) if path.name.endswith(ending))


def _attempts(root: Path) -> Iterator[Path]:
    for path in _directories(root):
        if not path.name.startswith(".") and (path / MARKER_NAME).is_file():
            yield path


def _directories(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _age_mark(path: Path) -> float:
    try:
        return (path / MARKER_NAME).lstat().st_mtime
    except OSError:
        return float("inf")


def _collect(path: Path) -> bool:
    try:
        lock = os.open(path / MARKER_NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _remove_owned(path) is None
    except OSError:
        return False
    finally:
        os.close(lock)


def _sweep_unfinished(root: Path) -> None:
    oldest = time.time() - _UNFINISHED_SECONDS
    for path in _directories(root):
        with contextlib.suppress(OSError):
            if path.name.startswith(_UNFINISHED) and path.lstat().st_mtime < oldest:
                rmtree.remove_tree(path)


def _remove_owned(path: Path) -> str | None:
    """The marker goes last: a removal that is cut off leaves a directory that the next sweep still knows."""
    left = rmtree.empty_directory(path, keep=MARKER_NAME)
    if left:
        return left
    try:
        (path / MARKER_NAME).unlink(missing_ok=True)
        path.rmdir()
    except FileNotFoundError:
        return None
    except OSError as fault:
        return f"{path}: {fault.strerror}"
    return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _untrusted(path: Path, why: str) -> WorkspaceError:
    return WorkspaceError(f"the workspace directory {path} cannot be trusted any more: {why}; nothing is published from it")
