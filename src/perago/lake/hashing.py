"""MD5 in another thread, so that the caller can receive or send while bytes are hashed."""

import hashlib
import threading
from queue import SimpleQueue
from typing import Protocol

_BLOCK = 1 << 20
_BLOCKS = 4
"""Buffers in use at once; limits memory, and how far hashing may be behind."""


class Md5(Protocol):
    def update(self, data: memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


class KnownMd5:
    """An MD5 that was computed before."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    def update(self, data: memoryview, /) -> None:
        """Nothing is hashed again."""

    def hexdigest(self) -> str:
        return self._digest


class ThreadedMd5:
    """Used by one thread. The hashing thread runs from the first byte until `hexdigest`, which must be called."""

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._full: SimpleQueue[tuple[bytearray, int]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._block = bytearray()
        self._used = 0

    def update(self, data: memoryview, /) -> None:
        """Copies the bytes, so that the caller can reuse its buffer."""
        self._start()
        while data:
            count = min(len(data), _BLOCK - self._used)
            self._block[self._used : self._used + count] = data[:count]
            self._used += count
            data = data[count:]
            if self._used == _BLOCK:
                self._hand_over()
                self._block = self._free.get()

    def hexdigest(self) -> str:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._hand_over()
            self._full.put((self._block, 0))
            thread.join()
        return self._md5.hexdigest()

    def _start(self) -> None:
        if self._thread is None:
            self._block = bytearray(_BLOCK)
            for _ in range(_BLOCKS - 1):
                self._free.put(bytearray(_BLOCK))
            self._thread = threading.Thread(target=self._hash, name="perago-md5", daemon=True)
            self._thread.start()

    def _hand_over(self) -> None:
        if self._used:
            self._full.put((self._block, self._used))
            self._used = 0

    def _hash(self) -> None:
        while True:
            block, used = self._full.get()
            if not used:
                return
            self._md5.update(memoryview(block)[:used])
            self._free.put(block)
