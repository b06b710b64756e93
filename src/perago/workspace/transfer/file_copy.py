"""Copy an open file: by sharing blocks where the file system can, otherwise inside the kernel, otherwise by reading it."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable

SMALL = 128 * 1024
"""Up to this size one read and one write are cheaper than a copy by the kernel."""
BLOCK = 1 << 20
KERNEL_STEP = 1 << 30
_FICLONE = 0x40049409
_UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EBADF, errno.EPERM, errno.ETXTBSY}
"""Errors that mean "not supported by this file system"; the next way to copy is tried."""
_devices_without_reflink: set[int] = set()

FILE_MODE = 0o666
PROGRAM_MODE = 0o777


def copy(source: int, size: int, target: str, mode: int = FILE_MODE) -> os.stat_result:
    """Copy to the new file `target`, which is removed if that fails; returns its status after the last byte."""
    return _create(target, mode, lambda descriptor: _fill(source, size, descriptor))


def create(data: bytes, target: str, mode: int = FILE_MODE) -> os.stat_result:
    """As `copy`, from memory."""
    return _create(target, mode, lambda descriptor: _write_all(descriptor, data))


def _create(target: str, mode: int, fill: Callable[[int], None]) -> os.stat_result:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        fill(descriptor)
        status = os.fstat(descriptor)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(target)  # noqa: PTH108 (paths are strings: creating a Path costs more than copying a small file)
        raise
    os.close(descriptor)
    return status


def _fill(source: int, size: int, target: int) -> None:
    if size <= SMALL:
        _write_all(target, os.read(source, SMALL))
    elif not _reflink(source, target) and not _kernel_copy(source, target):
        _plain_copy(source, target)


def _write_all(target: int, data: bytes) -> None:
    written = os.write(target, data)
    while written < len(data):
        written += os.write(target, data[written:])


def _reflink(source: int, target: int) -> bool:
    device = os.fstat(target).st_dev
    if device in _devices_without_reflink:
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        if error.errno != errno.EXDEV:
            _devices_without_reflink.add(device)
        return False
    return True


def _kernel_copy(source: int, target: int) -> bool:
    """True if everything was copied; False if nothing was, because the kernel cannot copy between these two files."""
    copied = 0
    while hasattr(os, "copy_file_range"):
        try:
            step = os.copy_file_range(source, target, KERNEL_STEP)
        except OSError as error:
            if copied or error.errno not in _UNSUPPORTED:
                raise
            return False
        if step == 0:
            return copied > 0
        copied += step
    return False


def _plain_copy(source: int, target: int) -> None:
    while block := os.read(source, BLOCK):
        _write_all(target, block)
