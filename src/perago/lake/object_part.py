"""Parts of an object, read by HTTP ranges. Several at once are faster than one reply, and a broken one is read again alone.

Only the number of bytes is verified here, because a checksum is that of a whole object.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus

from perago.errors import LakeCorrupt
from perago.http.request import HttpRequest, Receive, ReplyHead
from perago.model import ObjectInfo

Write = Callable[[memoryview, int], object]
"""Takes bytes and their position in the object, in order; after a broken reply again from the beginning of the part."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def request(whole: HttpRequest, info: ObjectInfo, start: int, length: int, timeout: float) -> HttpRequest:
    """The request for a part of an object, made of the request for the whole object."""
    if length == info.size:
        return whole
    return replace(whole, headers=f"{whole.headers}Range: bytes={start}-{start + length - 1}\r\n", timeout=timeout)


def receive(what: str, info: ObjectInfo, start: int, length: int, write: Write) -> Receive[bool]:
    """Receives a part. False, and nothing is written, if the server ignores ranges and sends the whole object."""

    def receive_part(head: ReplyHead, body: Iterable[memoryview]) -> bool:
        if length != info.size and head.status == HTTPStatus.OK:
            return False
        _require_range(what, head, info, start, length)
        received = 0
        for part in body:
            if received + len(part) > length:
                raise LakeCorrupt(f"{what}: more than the {length} bytes from {start} that were asked for")
            write(part, start + received)
            received += len(part)
        if received != length:
            raise LakeCorrupt(f"{what}: {received} bytes from {start}, {length} were asked for")
        return True

    return receive_part


def _require_range(what: str, head: ReplyHead, info: ObjectInfo, start: int, length: int) -> None:
    if head.length not in (None, -1, length):
        raise LakeCorrupt(f"{what}: {head.length} bytes from {start}, {length} were asked for")
    if length == info.size:
        return
    stated = head.headers.get("content-range", "")
    found = _CONTENT_RANGE.fullmatch(stated)
    if found is None or (int(found[1]), int(found[2])) != (start, start + length - 1) or found[3] not in ("*", str(info.size)):
        raise LakeCorrupt(f"{what}: {length} bytes from {start} of {info.size} were asked for, the reply has {stated!r}")
