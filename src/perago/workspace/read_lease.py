"""A lease on an open file, by which the kernel tells whether something can write to the file.

While the lease is held, whatever opens the file for writing, or truncates it, waits; the kernel breaks the lease after
`/proc/sys/fs/lease-break-time` seconds. It ends with its descriptor.
"""

import fcntl
import signal


def take(descriptor: int) -> bool:
    """For a descriptor opened for reading. False if the file is open or mapped for writing, or the file system has no leases."""
    try:
        # The kernel sends a signal to the holder when something waits. The usual one, SIGIO, would end the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except (OSError, AttributeError):  # the attributes exist on Linux alone
        return False
    return True


def is_held(descriptor: int) -> bool:
    """Whether nothing has tried to write since the lease was taken."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_RDLCK
    except (OSError, AttributeError):
        return False
