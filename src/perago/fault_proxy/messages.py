"""HTTP messages in their raw form, read from and written to sockets."""

import re
import socket
import struct
from dataclasses import dataclass

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Gone(Exception):
    """The other side closed, or the proxy is stopping."""


@dataclass(frozen=True)
class Message:
    """One HTTP message in its raw form."""

    head: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.head + self.body

    @property
    def line(self) -> str:
        """Of a request: method and target."""
        return self.head.decode("latin-1").split("\r\n", 1)[0].rpartition(" ")[0]


class Stream:
    """Reads whole messages from a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._pending = b""

    def message(self, *, no_body: bool = False) -> Message:
        head = self._until(b"\r\n\r\n")
        fields = head.decode("latin-1").lower()
        if "\r\nexpect: 100-continue" in fields:
            # A client that sends `Expect: 100-continue` waits seconds for the reply before it sends its body.
            self.send(CONTINUE)
        if no_body or re.match(r"http/1.. (1..|204|304)", fields):
            return Message(head, b"")
        if "transfer-encoding: chunked" in fields:
            return Message(head, self._chunks())
        length = re.search(r"\r\ncontent-length: *(\d+)", fields)
        return Message(head, self._exactly(int(length[1]) if length else 0))

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone from error

    def close(self, *, reset: bool = False) -> None:
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.shut()
        self.socket.close()

    def shut(self) -> None:
        """Wake a thread that reads this socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was quicker

    def _chunks(self) -> bytes:
        body = b""
        while True:
            line = self._until(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body += line + self._exactly(size + 2)
            if not size:
                return body

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._pending:
            self._more()
        end = self._pending.index(mark) + len(mark)
        return self._exactly(end)

    def _exactly(self, size: int) -> bytes:
        while len(self._pending) < size:
            self._more()
        data, self._pending = self._pending[:size], self._pending[size:]
        return data

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._pending += data
