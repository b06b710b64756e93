"""Attempt directories: create one per execution, verify it before publication, remove it, and remove abandoned ones.

<root>/<task id>-<execution id>/     mode 0700
    .perago-attempt.json             the marker: process and attempt; the kernel releases its lock when the executor dies
    work/                            the body's workspace; Perago keeps no file of its own in it
<root>/.scratch-<process id>/        an empty one that an executor keeps for its next body without a workspace directory
"""

import contextlib
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
from perago.process.lock_file import LockFile
from perago.workspace import placement, rmtree

WORK = "work"
_UNFINISHED = ".new-"
"""Prefix of a directory until its marker is written and locked, so that it never looks abandoned before."""
_SET_ASIDE = ".scratch-"
"""Prefix of a directory between two executions that use it."""
_UNFINISHED_SECONDS = 60
"""Creation takes milliseconds. A process stopped for longer than this while creating fails, and the attempt is retried."""
_MAX_ID_LENGTH = 96
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_lock_descriptors: set[int] = set()


def _close_locks_in_child() -> None:
    """A process that the body forks must not keep the executor's lock after the executor has ended."""
    for descriptor in _lock_descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _lock_descriptors.clear()


os.register_at_fork(after_in_child=_close_locks_in_child)


class AttemptDirectory:
    """The directory of one execution; `work` is the part that the body gets."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.work = path / WORK
        self._lock = lock
        self._lock_identity = _identity(os.fstat(lock))
        # Held open, because the file system could give the inode number to a directory that replaces a removed one.
        self._work_handle = os.open(self.work, _DIRECTORY)
        self._work_identity = _identity(os.fstat(self._work_handle))
        _lock_descriptors.add(lock)

    def verify(self) -> None:
        """Raise `WorkspaceError` unless this is still the directory that was created, with its marker, readable and writable."""
        try:
            status = self.work.lstat()
            marker = (self.path / MARKER_NAME).lstat()
        except OSError as error:
            raise _untrusted(self.work, f"it or its marker is gone ({error.strerror})") from error
        if stat.S_ISLNK(status.st_mode):
            raise _untrusted(self.work, "it was turned into a symlink")
        if _identity(status) != self._work_identity:
            raise _untrusted(self.work, "it was replaced")
        if _identity(marker) != self._lock_identity:
            raise _untrusted(self.work, "its marker was replaced")
        if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            raise _untrusted(self.work, f"its mode became {stat.filemode(status.st_mode)}")

    def set_aside(self) -> None:
        """Keep the empty directory for the next execution of this process; `WorkspaceError` if it is not as it was created."""
        self.verify()
        try:
            with os.scandir(self._work_handle) as entries:
                if any(entries):
                    raise _untrusted(self.work, "it is not empty")
        except OSError as error:
            raise _untrusted(self.work, f"it cannot be read ({error.strerror})") from error
        self._rename(f"{_SET_ASIDE}{os.getpid()}")

    def pass_on(self, attempt: Attempt, execution_id: ExecutionId) -> None:
        """Give a directory that was set aside to another execution; `WorkspaceError` if it is not as it was created."""
        self.verify()
        content = _marker(attempt, execution_id)
        os.pwrite(self._lock, content, 0)
        os.ftruncate(self._lock, len(content))
        self._rename(directory_name(attempt.task_id, execution_id))

    def _rename(self, name: str) -> None:
        path = self.path.with_name(name)
        try:
            self.path.rename(path)
        except OSError as error:
            raise _untrusted(self.work, f"it cannot be renamed ({error.strerror})") from error
        self.path, self.work = path, path / WORK

    def remove(self) -> str | None:
        """Delete everything and release the lock. Returns None, or the first path that could not be deleted and the reason."""
        if self._lock < 0:
            return None
        not_removed = _remove_owned(self.path)
        _lock_descriptors.discard(self._lock)
        os.close(self._lock)
        os.close(self._work_handle)
        self._lock = -1
        return not_removed


def create(root: Path, attempt: Attempt, execution_id: ExecutionId) -> AttemptDirectory:
    """Create the directory for one execution below `root`; `WorkspaceError` if that fails."""
    # Absolute, because a body may change the working directory.
    root, name = root.absolute(), directory_name(attempt.task_id, execution_id)
    unfinished, path = root / (_UNFINISHED + name), root / name
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        placement.spread(root)
        unfinished.mkdir(mode=0o700)
        (unfinished / WORK).mkdir(mode=0o700)
        lock = _locked_marker(unfinished / MARKER_NAME, attempt, execution_id)
    except OSError as error:
        raise WorkspaceError(f"cannot create the attempt directory {path}: {error.strerror}") from error
    try:
        unfinished.rename(path)
        return AttemptDirectory(path, lock)
    except OSError as error:
        os.close(lock)
        raise WorkspaceError(f"cannot create the attempt directory {path}: {error.strerror}") from error


def directory_name(task_id: str, execution_id: str) -> str:
    return f"{_file_name(task_id)}-{_file_name(execution_id)}"


def _file_name(identifier: str) -> str:
    """The identifier itself if it is a safe file name; otherwise its readable part and a hash."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", identifier) and len(identifier) <= _MAX_ID_LENGTH:
        return identifier
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", identifier)[:32]
    return f"{readable}_{sha256(identifier.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _locked_marker(path: Path, attempt: Attempt, execution_id: ExecutionId) -> int:
    lock = LockFile(path, flags=os.O_CREAT | os.O_EXCL)
    try:
        lock.write(_marker(attempt, execution_id))
    except BaseException:
        lock.close()
        raise
    return lock.descriptor


def _marker(attempt: Attempt, execution_id: ExecutionId) -> bytes:
    content = {"pid": os.getpid(), "started_at": time.time(), "execution_id": execution_id, "attempt": asdict(attempt)}
    return json.dumps(content, indent=1).encode()


def remove_abandoned(root: Path, older_than_seconds: float = 0.0) -> list[Path]:
    """Remove directories of at least that age whose executor has ended, and return them.

    A directory without a marker is not Perago's; one whose lock is held is in use.
    """
    newest = time.time() - older_than_seconds
    removed = [path for path in _attempts(root) if _created_at(path) <= newest and _remove_if_abandoned(path)]
    _remove_unfinished(root)
    return removed


def remove_execution(root: Path, execution_id: ExecutionId) -> bool:
    """Remove the directory of one execution whose executor died; False if there is none or its lock is still held."""
    ending = "-" + _file_name(execution_id)
    for path in _directories(root):
        if path.name.endswith(ending) and path.name.startswith(_UNFINISHED):
            rmtree.remove_tree(path)
    return any(_remove_if_abandoned(path) for path in _attempts(root) if path.name.endswith(ending))


def _attempts(root: Path) -> Iterator[Path]:
    for path in _directories(root):
        is_finished = not path.name.startswith(".") or path.name.startswith(_SET_ASIDE)
        if is_finished and (path / MARKER_NAME).is_file():
            yield path


def _directories(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _created_at(path: Path) -> float:
    try:
        return (path / MARKER_NAME).lstat().st_mtime
    except OSError:
        return float("inf")


def _remove_if_abandoned(path: Path) -> bool:
    try:
        with LockFile(path / MARKER_NAME, flags=os.O_NOFOLLOW):
            return _remove_owned(path) is None
    except OSError:
        return False


def _remove_unfinished(root: Path) -> None:
    oldest = time.time() - _UNFINISHED_SECONDS
    for path in _directories(root):
        with contextlib.suppress(OSError):
            if path.name.startswith(_UNFINISHED) and path.lstat().st_mtime < oldest:
                rmtree.remove_tree(path)


def _remove_owned(path: Path) -> str | None:
    """Delete the marker last, so that the next remove_abandoned still recognises a directory whose removal was interrupted."""
    not_removed = rmtree.empty_directory(path, keep=MARKER_NAME)
    if not_removed:
        return not_removed
    try:
        (path / MARKER_NAME).unlink(missing_ok=True)
        path.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _untrusted(path: Path, why: str) -> WorkspaceError:
    return WorkspaceError(f"the workspace directory {path} cannot be trusted any more: {why}; nothing is published from it")
