"""Keep-alive connections that wait for the next request."""

import os
import ssl
import time
from collections import deque

from perago.http.connection import Deadline, HttpConnection
from perago.http.request import Origin


class ConnectionPool:
    """Idle connections by origin, the last used first; safe to share between threads.

    `keep` bounds the idle connections per origin. After a fork the child does not use its parent's connections.
    """

    def __init__(self, tls: ssl.SSLContext | None, connect_timeout: float, keep: int) -> None:
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._keep = keep
        self._idle: dict[Origin, deque[HttpConnection]] = {}
        self._pid = os.getpid()

    def acquire(self, origin: Origin, deadline: Deadline) -> HttpConnection:
        """An idle connection or a new one; `ConnectionBroken` if none can be made."""
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        idle = self._idle.get(origin, ())
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread took the last one
                break
            if connection.is_usable():
                return connection
            connection.close()
        return HttpConnection(origin, self._context(origin), deadline, self._connect_timeout)

    def release(self, connection: HttpConnection) -> None:
        """Keep a connection whose reply was read to its end; close any other."""
        idle = self._idle.setdefault(connection.origin, deque())
        if not connection.reusable or len(idle) >= self._keep:
            connection.close()
            return
        connection.reusable = False
        connection.idle_since = time.monotonic()
        idle.append(connection)

    def close(self) -> None:
        """Close the idle connections; the pool stays usable."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _context(self, origin: Origin) -> ssl.SSLContext | None:
        if origin.scheme != "https":
            return None
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls
