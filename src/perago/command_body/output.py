"""Passes on what a command prints, line by line and up to a limit, and keeps its last lines for the reason of a failure."""

import contextlib
import os
import sys
from dataclasses import dataclass, field
from typing import TextIO

LONGEST_LINE = 16 << 10
MOST_BYTES = 10_000_000
MOST_LINES = 20_000
"""Of one stream of one attempt. What exceeds this is read and dropped: a command that prints without end fills no disk."""
READ_SIZE = 64 << 10
LAST_BYTES = 16 << 10
LAST_LINES = 20
"""Written at the end if lines were dropped."""
REASON_LINES = 5
REASON_LENGTH = 350


@dataclass(slots=True)
class OutputStream:
    """One output of a command: `reader` is this process's end of the pipe, `name` the stream of this process that it goes to."""

    reader: int
    name: str
    _rest: bytes = b""
    _last: bytes = b""
    _bytes: int = 0
    _lines: int = 0
    is_at_end: bool = field(default=False, init=False)
    dropped: int = field(default=0, init=False)
    """Bytes that were not passed on."""

    @property
    def is_full(self) -> bool:
        """Whether what follows is dropped."""
        return self._bytes >= MOST_BYTES or self._lines >= MOST_LINES

    def read(self) -> bool:
        """Read and pass on one piece; False if there is none."""
        try:
            data = os.read(self.reader, READ_SIZE)
        except BlockingIOError:
            return False
        self.is_at_end = not data
        if data:
            self._last = (self._last + data)[-LAST_BYTES:]
            self._pass_on(data)
        return bool(data)

    def read_rest(self) -> None:
        """After the command has ended: what is left in the pipe. A process that could not be killed may hold it open."""
        for _ in range(_LARGEST_PIPE // READ_SIZE + 1):
            if not self.read():
                break
        if self._rest:
            self._write([self._rest])
            self._rest = b""
        if self.dropped:
            self._write([f"… {self.dropped:,} bytes of output left out; the last lines are: …".encode(), *self._last_lines()])

    def close(self) -> None:
        os.close(self.reader)

    def last_words(self) -> str:
        """The last lines, for a reason; the end of them if they are long."""
        lines = [_text(line).strip() for line in self._last_lines()]
        text = " | ".join([line for line in lines if line][-REASON_LINES:])
        return text if len(text) <= REASON_LENGTH else f"…{text[-REASON_LENGTH:]}"

    def _last_lines(self) -> list[bytes]:
        return self._last.rstrip(b"\n").split(b"\n")[-LAST_LINES:]

    def _pass_on(self, data: bytes) -> None:
        if self.is_full:
            self.dropped += len(data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > LONGEST_LINE:
            lines.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        kept = lines[: MOST_LINES - self._lines]
        self.dropped += sum(len(line) + 1 for line in lines[len(kept) :])
        self._lines += len(kept)
        self._bytes += len(data)
        if self.is_full:
            self.dropped += len(self._rest)
            self._rest = b""
        self._write(kept)

    def _write(self, lines: list[bytes]) -> None:
        stream: TextIO | None = getattr(sys, self.name)
        # The stream may be closed where a body runs in the process of a test.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if stream is not None and lines:
                stream.write("".join(f"{_text(line)}\n" for line in lines))
                stream.flush()


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="backslashreplace")


_LARGEST_PIPE = 1 << 20
"""The largest size of a pipe that a process may choose."""
