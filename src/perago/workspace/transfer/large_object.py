"""Large objects on their way into the workspace, in parts that several threads receive at once, to be verified later."""

import os
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perago.lake import port
from perago.workspace.cache.listing_cache import ListedFile
from perago.workspace.input_verification import LARGEST, InputVerification
from perago.workspace.transfer.source import Source

PART = 64 << 20
"""Bytes of a part; the requests for smaller ones would cost more than they gain."""


class Part(NamedTuple):
    """Some bytes of an object."""

    object: "LargeObject"
    start: int
    size: int


class LargeObject:
    """The new file of an object. It is created with the first part and closed with the last one."""

    def __init__(self, file: ListedFile, target: str) -> None:
        self.file = file
        self.target = target
        self.lock = threading.Lock()
        self.is_undivided = False
        """Set once the server has ignored a range: the object has to be read whole."""
        self._writing = threading.Lock()
        """The kernel lets one thread write to a file at a time. Others would wait actively, on cores that the transfer needs."""
        self._descriptor: int | None = None
        self._missing = set(range(0, file.size, PART))

    def parts(self) -> Iterator[Part]:
        for start in range(0, self.file.size, PART):
            yield Part(self, start, min(PART, self.file.size - start))

    def create(self) -> bool:
        """Create the file; False if another part was first. Called with the lock."""
        if self._descriptor is not None:
            return False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.target, flags, 0o666)
        return True

    def write(self, data: memoryview, position: int) -> None:
        if self._descriptor is None:
            raise AssertionError("the file is open while a part is received")
        with self._writing:
            while data:
                count = os.pwrite(self._descriptor, data, position)
                data, position = data[count:], position + count

    def finish(self, part: Part) -> int:
        """A part is written; returns how many bytes from the beginning of the object are complete."""
        with self.lock:
            self._missing.discard(part.start)
            return min(self._missing, default=self.file.size)

    def close(self) -> None:
        """No byte follows."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class LargeObjectReader:
    """Reads objects of one commit in parts, and hands them over to the verification."""

    def __init__(self, lake: port.Lake, source: Source, verification: InputVerification) -> None:
        self._lake = lake
        self._source = source
        self._verification = verification
        self._objects: list[LargeObject] = []

    @property
    def has_read(self) -> bool:
        return bool(self._objects)

    def divide(self, file: ListedFile, target: str) -> Sequence[Part]:
        """The parts to read; none if the object has to be read whole, and verified at once."""
        if file.size > LARGEST or not self._lake.capabilities().parts or not self._verification.reserve():
            return []
        self._objects.append(LargeObject(file, target))
        return list(self._objects[-1].parts())

    def read(self, part: Part) -> bool:
        """Receive a part; True if the object is complete now. `OSError` if the file cannot be written."""
        large, size = part.object, part.object.file.size
        self._create(large)
        if not large.is_undivided and not self._receive(large, part.start, part.size):
            large.is_undivided = True
        received = large.finish(part)
        if received == size:
            if large.is_undivided:
                self._receive(large, 0, size)
            large.close()
        if received == size or not large.is_undivided:
            self._verification.received(large.file.path, received)
        return received == size

    def close(self) -> None:
        """Close what an error has left open."""
        for large in self._objects:
            large.close()

    def _create(self, large: LargeObject) -> None:
        with large.lock:
            if large.create():
                file, source = large.file, self._source
                what = f"read {source.prefix + file.path!r} of {source.repository}@{source.commit}"
                self._verification.add(file.path, what, file.size, file.checksum)

    def _receive(self, large: LargeObject, start: int, size: int) -> bool:
        source = self._source
        return self._lake.read_part(source.repository, source.commit, source.info(large.file), start, size, large.write)
