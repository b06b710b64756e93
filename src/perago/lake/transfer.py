"""Bytes between a reply or a request and a local file: constant memory, MD5 on the way, and never a wrong file left behind."""

import hashlib
import os
import re
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
"""Files up to this size travel in one piece with their request's head."""
HASHED_APART = 64 << 20
"""Larger files are hashed by a thread of their own: there are fewer of them than cores, and one alone waits for its MD5."""
_BUFFER = 256 * 1024
_MD5 = re.compile(r"[0-9a-f]{32}")


def is_md5(checksum: str) -> bool:
    """LakeFS and object stores give the plain MD5 of what was uploaded in one piece; for the rest see `parts`, or anything."""
    return _MD5.fullmatch(checksum) is not None


def save(what: str, info: ObjectInfo, into: Path) -> Callable[[ReplyHead, Iterable[memoryview]], str]:
    """Receives an object's bytes into a new file that exists afterwards only if they are the announced ones; their MD5."""

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
    """The MD5 of an object that fits into memory, if its bytes are the announced ones."""
    if len(data) != info.size:
        raise LakeCorrupt(f"{what}: {len(data)} bytes, {info.size} were announced")
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if is_md5(info.checksum) and md5 != info.checksum and not multipart_etag.is_one_part(md5, info.checksum):
        raise LakeCorrupt(f"{what}: MD5 {md5}, {info.checksum} was announced")
    return md5


def load(what: str, info: ObjectInfo) -> Callable[[ReplyHead, Iterable[memoryview]], tuple[str, bytes]]:
    """Receives a small object's bytes into memory: their MD5 and themselves."""

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
    """One local file on its way out, from its beginning each time. `md5` is that of the bytes that were sent, once they are."""

    def __init__(self, file: int, size: int, source: Path) -> None:
        self.size = size
        self._file = file
        self._source = source
        self._md5 = _md5_of(size)

    @property
    def md5(self) -> str:
        return self._md5.hexdigest()

    def finish(self) -> None:
        """No more bytes: ends what hashes them."""
        self._md5.hexdigest()

    def content(self) -> bytes:
        """All of it at once, for small files."""
        return b"".join(bytes(part) for part in self._parts())

    def send(self, connection: HttpConnection, deadline: Deadline) -> None:
        for part in self._parts():
            connection.send(part, deadline)

    def _parts(self) -> Iterator[memoryview]:
        """Exactly `size` bytes. The last part waits until the file's end is seen, so a growing file is never sent whole."""
        os.lseek(self._file, 0, os.SEEK_SET)
        self.finish()
        self._md5 = _md5_of(self.size)
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
def upload(source: Path) -> Generator[UploadSource]:
    """A regular file; a symlink or fifo that took its place is refused, and never waited for."""
    try:
        file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise WorkspaceError(f"cannot read {source}: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise WorkspaceError(f"{source} is not a regular file")
        sending = UploadSource(file, status.st_size, source)
        try:
            yield sending
        finally:
            sending.finish()
    finally:
        os.close(file)


def _md5_of(size: int) -> hashing.Md5:
    return hashing.Apart() if size >= HASHED_APART else hashlib.md5(usedforsecurity=False)


def _copy(body: Iterable[memoryview], file: int, limit: int) -> tuple[int, str]:
    """Size and MD5 of what was written; stops reading once there is more than there may be."""
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
    """A file that is gone again if anything goes wrong before the end."""
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
