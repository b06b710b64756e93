"""How a process that runs bodies begins, in a worker and in `perago run`."""

import io
import os
import signal
import socket
import sys


def prepare(descriptor: str) -> socket.socket:
    """Set up signals and output, and return the connection to the parent, which processes of a body do not inherit."""
    # Ctrl-C goes to the whole process group, and the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        # The last lines that a body printed explain how its process ended.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    connection = socket.socket(fileno=int(descriptor))
    os.set_inheritable(connection.fileno(), False)
    return connection
