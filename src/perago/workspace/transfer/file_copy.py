"""An open file in, a new file with the same bytes out: sharing blocks where the file system can, inside the kernel otherwise."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable

SMALL = 128 * 1024
"""Up to here one read and one write are cheaper than asking the kernel to copy."""
BLOCK = 1 << 20
KERNEL_STEP = 1 << 30
_FICLONE = 0x40049409
_NOT_HERE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EBADF, errno.EPERM, errno.ETXTBSY}
"""Answers that mean "not on this file system", after which the next way is tried."""
_devices_without_reflink: set[int] = set()

FILE_MODE = 0o666
PROGRAM_MODE = 0o777


def copy(source: int, size: int, target: str, mode: int = FILE_MODE) -> os.stat_result:
    """`target` must not exist; nothing is left of it if the copy fails. Its status after the last byte is returned."""
    return _made(target, mode, lambda descriptor: _fill(source, size, descriptor))


def create(data: bytes, target: str, mode: int = FILE_MODE) -> os.stat_result:
    """The same for bytes at hand."""
    return _made(target, mode, lambda descriptor: _write_all(descriptor, data))


def _made(target: str, mode: int, fill: Callable[[int], None]) -> os.stat_result:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        fill(descriptor)
        status = os.fstat(descriptor)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(target)  # noqa: PTH108 (paths are strings here: one Path per file costs more than the copy of a small one)
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
    except OSError as fault:
        if fault.errno not in _NOT_HERE:
            raise
        if fault.errno != errno.EXDEV:
            _devices_without_reflink.add(device)
        return False
    return True


def _kernel_copy(source: int, target: int) -> bool:
    """True when everything was copied; False when nothing was, because the kernel does not do it between these two."""
    copied = 0
    while hasattr(os, "copy_file_range"):
        try:
            step = os.copy_file_range(source, target, KERNEL_STEP)
        except OSError as fault:
            if copied or fault.errno not in _NOT_HERE:
                raise
            return False
        if step == 0:
            return copied > 0
        copied += step
    return False


def _plain_copy(source: int, target: int) -> None:
    while block := os.read(source, BLOCK):
        _write_all(target, block)
