"""Exclusive locks on files, for use between processes: the kernel releases them when their holder ends, however it ends."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class LockFile:
    """Holds the lock from its creation until `close`; the file may contain a short text. Child processes do not inherit it."""

    __slots__ = ("descriptor",)

    def __init__(self, path: Path | str, *, wait: bool = False, flags: int = os.O_CREAT, mode: int = 0o600) -> None:
        """Opens the file, by default creating it. Raises BlockingIOError if another holds the lock, unless it may `wait`."""
        self.descriptor = os.open(path, os.O_RDWR | flags, mode)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self.descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Releases the lock. The file stays."""
        os.close(self.descriptor)

    def read(self) -> bytes:
        """The text, as far as it fits into 4 KiB."""
        return os.pread(self.descriptor, 4096, 0)

    def write(self, text: bytes) -> None:
        """Not truncated to nothing first: ext4 then writes the file to the disk when it is closed, which takes milliseconds."""
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock. Raises OSError if there is no such file."""
    try:
        LockFile(path, flags=0).close()
    except BlockingIOError:
        return True
    return False
