"""Transfers between HTTP and local files, in constant memory, with the MD5 computed on the way; no incomplete file is left."""

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.errors import LakeCorrupt, WorkspaceError
from perago.http.connection import Deadline, HttpConnection
from perago.http.request import ReplyHead
from perago.lake import hashing, multipart_etag
from perago.model import ObjectInfo

SMALL = 64 * 1024
"""Bytes up to which a file is sent in one piece with the head of its request."""
HASHED_IN_THREAD = 64 << 20
"""Bytes from which another thread hashes a file: few of them are transferred at once, so cores are idle."""
_BUFFER = 256 * 1024


def is_md5(checksum: str) -> bool:
    """Whether it may be an MD5. For objects that were uploaded in parts see `multipart_etag`."""
    return multipart_etag.is_digest(checksum)


def save(what: str, info: ObjectInfo, into: Path) -> Callable[[ReplyHead, Iterable[memoryview]], str]:
    """Receives an object into a new file and returns its MD5. Size and checksum must match, or no file is left."""

    def receive(head: ReplyHead, body: Iterable[memoryview]) -> str:
        if head.length is not None and head.length not in (info.size, -1):
            raise LakeCorrupt(f"{what}: {head.length} bytes, {info.size} were announced")
        with _new_file(into) as file:
            size, md5 = _copy(body, file, info.size)
            if size != info.size:
                raise LakeCorrupt(f"{what}: {size} bytes, {info.size} were announced")
            announced = info.checksum
            if is_md5(announced) and md5 != announced and not multipart_etag.match(into, size, md5, announced):
                raise LakeCorrupt(f"{what}: MD5 {md5}, {info.checksum} was announced")
        return md5

    return receive


def checked(what: str, info: ObjectInfo, data: bytes) -> str:
    """The MD5 of an object in memory; `LakeCorrupt` unless size and checksum match."""
    if len(data) != info.size:
        raise LakeCorrupt(f"{what}: {len(data)} bytes, {info.size} were announced")
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if is_md5(info.checksum) and md5 != info.checksum and not multipart_etag.is_one_part(md5, info.checksum):
        raise LakeCorrupt(f"{what}: MD5 {md5}, {info.checksum} was announced")
    return md5


def load(what: str, info: ObjectInfo) -> Callable[[ReplyHead, Iterable[memoryview]], tuple[str, bytes]]:
    """Receives a small object into memory and returns its MD5 and its bytes."""

    def receive(head: ReplyHead, body: Iterable[memoryview]) -> tuple[str, bytes]:
        if head.length is not None and head.length not in (info.size, -1):
            raise LakeCorrupt(f"{what}: {head.length} bytes, {info.size} were announced")
        data = bytearray()
        for part in body:
            data += part
            if len(data) > info.size:
                break
        content = bytes(data)
        return checked(what, info, content), content

    return receive


class UploadSource:
    """A local file to upload, from its beginning each time. `md5` is `known`, or else the one of the bytes that were sent."""

    def __init__(self, file: int, size: int, source: Path, known: str | None = None) -> None:
        self.size = size
        self._file = file
        self._source = source
        self._known = known
        self._md5 = self._new_md5()

    @property
    def md5(self) -> str:
        return self._md5.hexdigest()

    def finish(self) -> None:
        """No more bytes follow: ends the hashing thread."""
        self._md5.hexdigest()

    def content(self) -> bytes:
        """The whole file, for small ones."""
        return b"".join(bytes(part) for part in self._parts())

    def send(self, connection: HttpConnection, deadline: Deadline) -> None:
        for part in self._parts():
            connection.send(part, deadline)

    def _parts(self) -> Iterator[memoryview]:
        """Exactly `size` bytes. The last part comes after the file's end was seen, so a growing file is never sent whole."""
        os.lseek(self._file, 0, os.SEEK_SET)
        self.finish()
        self._md5 = self._new_md5()
        buffer = memoryview(bytearray(min(self.size, _BUFFER)))
        left = self.size
        while left:
            count = self._read(buffer[: min(left, _BUFFER)])
            left -= count
            if not count or not (left or self._at_end()):
                raise self._changed()
            part = buffer[:count]
            self._md5.update(part)
            yield part
        if not self.size and not self._at_end():
            raise self._changed()

    def _new_md5(self) -> hashing.Md5:
        return _md5_of(self.size) if self._known is None else hashing.KnownMd5(self._known)

    def _at_end(self) -> bool:
        return not self._read(memoryview(bytearray(1)))

    def _changed(self) -> WorkspaceError:
        return WorkspaceError(f"{self._source} changed its size while it was uploaded")

    def _read(self, into: memoryview) -> int:
        try:
            return os.readv(self._file, [into])
        except OSError as error:
            raise WorkspaceError(f"cannot read {self._source}: {error.strerror}") from error


@contextmanager
def upload(source: Path, md5: str | None = None) -> Generator[UploadSource]:
    """Open a regular file. A symbolic link or fifo in its place is refused without blocking.

    With its `md5` the file is not hashed again: the server's answer is compared with that one, so a later change is noticed.
    """
    try:
        file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise WorkspaceError(f"cannot read {source}: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise WorkspaceError(f"{source} is not a regular file")
        sending = UploadSource(file, status.st_size, source, md5)
        try:
            yield sending
        finally:
            sending.finish()
    finally:
        os.close(file)


def _md5_of(size: int) -> hashing.Md5:
    return hashing.ThreadedMd5() if size >= HASHED_IN_THREAD else hashlib.md5(usedforsecurity=False)


def _copy(body: Iterable[memoryview], file: int, limit: int) -> tuple[int, str]:
    """Size and MD5 of what was written; stops once there are more than `limit` bytes."""
    md5 = _md5_of(limit)
    size = 0
    try:
        for part in body:
            size += len(part)
            if size > limit:
                break
            md5.update(part)
            rest = part
            while rest:
                rest = rest[os.write(file, rest) :]
    finally:
        digest = md5.hexdigest()
    return size, digest


@contextmanager
def _new_file(path: Path) -> Generator[int]:
    """A new file, removed again if an error occurs."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WorkspaceError(f"cannot write {path}: {error.strerror}") from error
    try:
        try:
            yield file
        finally:
            os.close(file)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise WorkspaceError(f"cannot write {path}: {error.strerror}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
