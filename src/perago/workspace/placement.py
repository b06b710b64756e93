"""Where ext4 places the files of attempts.

ext4 does not use an inode again that was freed less than a minute ago, and examines each of them for every new file in the same
block group. Attempts create and remove files all the time, so each one after the first would take many times as long to fill.
In a directory with the flag of a top directory, ext4 chooses a block group for each new directory independently. Other file
systems do not have the flag.
"""

import contextlib
import fcntl
import os
import struct
import sys
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of a 64-bit Linux. They are declared with a long, and use an int."""
_TOP_DIRECTORY = 0x00020000
"""FS_TOPDIR_FL, which `lsattr -d` shows as T."""


def spread(directory: Path) -> None:
    """Have the file system place each directory that is created in `directory` independently, where it has such a flag."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            (flags,) = struct.unpack("i4x", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)))
            if not flags & _TOP_DIRECTORY:
                fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("i4x", flags | _TOP_DIRECTORY))
        finally:
            os.close(descriptor)
