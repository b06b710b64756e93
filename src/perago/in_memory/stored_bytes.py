"""The bytes of the objects of a fake lake, by checksum."""

import hashlib
import threading
from pathlib import Path
from typing import Protocol

from perago.http.request import ReplyHead
from perago.lake import transfer
from perago.model import ObjectInfo, ObjectPath


class StoredBytes(Protocol):
    """`what` and `path` are for errors."""

    def keep(self, data: bytes) -> str:
        """Store the bytes and return their checksum."""
        ...

    def keep_file(self, what: str, path: ObjectPath, source: Path) -> tuple[int, str]:
        """Store the bytes of a file and return their size and checksum."""
        ...

    def load(self, checksum: str) -> bytes: ...

    def save(self, what: str, checksum: str, info: ObjectInfo, into: Path) -> str:
        """Save as a download does; returns the MD5 of the bytes."""
        ...


class BytesInMemory:
    """Implements `StoredBytes` with a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def keep(self, data: bytes) -> str:
        checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
        with self._lock:
            self._blobs[checksum] = data
        return checksum

    def keep_file(self, what: str, path: ObjectPath, source: Path) -> tuple[int, str]:
        del what, path
        with transfer.upload(source) as file:
            data = file.content()
        return len(data), self.keep(data)

    def load(self, checksum: str) -> bytes:
        return self._blobs[checksum]

    def save(self, what: str, checksum: str, info: ObjectInfo, into: Path) -> str:
        data = memoryview(self.load(checksum))
        return transfer.save(what, info, into)(ReplyHead(200, {}, len(data)), [data])
